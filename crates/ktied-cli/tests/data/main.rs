//! `ktied data`: listing, checking, and downloads from a server on this machine.

mod downloads;
mod program;
mod server;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::{Compression, write::GzEncoder};

/// A folder of its own for a test, removed when it goes out of scope.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ktied-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// Names of everything in it, hidden or not.
    fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// The real program, with nothing of this machine's own data, caches or proxies.
fn ktied(args: &[&str], cache: &Folder) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ktied"));
    for name in ["KTIED_DATA", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    command.env("XDG_CACHE_HOME", &cache.0).args(args).output().expect("the program starts")
}
