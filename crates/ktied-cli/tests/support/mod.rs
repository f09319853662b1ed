//! What tests of the real program share.
#![allow(dead_code, reason = "each test target uses a part of it")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of this test's own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ktied-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub fn join(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ktied"));
    command.args(args).env_remove("KTIED_DATA");
    command
}

pub fn ktied(args: &[&str]) -> Output {
    command(args).output().expect("the program starts")
}

pub fn ok(args: &[&str]) -> String {
    let output = ktied(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

pub fn json(args: &[&str]) -> Value {
    serde_json::from_str(&ok(&[args, &["--json"]].concat())).expect("one JSON document")
}

pub fn code(args: &[&str]) -> (Option<i32>, String) {
    let output = ktied(args);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    (output.status.code(), message)
}
