//! A process that dies at any point of a save leaves the last good checkpoint, and the next one clears up.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ktied::checkpoint::Store;

use crate::support::{Folder, names, small};

const FILES: [&str; 3] = ["weights.safetensors", "train_state.safetensors", "manifest.json"];

/// Tells a test of this program that it is the process to be interrupted, and where.
const CHILD: &str = "KTIED_TEST_STORE";

/// After the crash: step 1 is the newest, nothing of step 2 is seen, and saving step 2 works and leaves nothing behind.
fn assert_recovers(store: &Store, what: &str) {
    assert_eq!(store.newest_good(), Ok((Some(small(1)), vec![])), "{what}");
    assert_eq!(store.prune(1, &[]), Ok(vec![]), "{what}");
    store.save(&small(2)).unwrap();
    assert_eq!(store.newest_good(), Ok((Some(small(2)), vec![])), "{what}");
    assert_eq!(names(store.step_folder(1).parent().unwrap()), ["step-00000001", "step-00000002"], "{what}");
}

/// A store with step 1, and the complete folder of step 2 elsewhere.
fn before_the_crash() -> (Folder, Store, Folder) {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    folder.store().save(&small(1)).unwrap();
    elsewhere.store().save(&small(2)).unwrap();
    let store = folder.store();
    (folder, store, elsewhere)
}

fn copy(files: &[&str], from: &Path, to: &Path) {
    for file in files {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[test]
fn every_state_that_a_save_goes_through() {
    // The folder aside is there, with whole files, and the next one at any length; at last all of them, without their name.
    for whole in 0..=FILES.len() {
        for permille in [0, 1, 500, 999] {
            let (_folder, store, elsewhere) = before_the_crash();
            let aside = store.step_folder(2).with_file_name(".tmp-step-00000002");
            fs::create_dir(&aside).unwrap();
            let from = elsewhere.store().step_folder(2);
            copy(&FILES[..whole], &from, &aside);
            if let Some(file) = FILES.get(whole) {
                let bytes = fs::read(from.join(file)).unwrap();
                fs::write(aside.join(file), &bytes[..bytes.len() * permille / 1000]).unwrap();
            }
            assert_recovers(&store, &format!("{whole} files and {permille}‰ of the next"));
        }
    }
}

#[test]
fn a_removal_that_was_interrupted_is_not_seen() {
    for left in 0..=FILES.len() {
        let (_folder, store, elsewhere) = before_the_crash();
        let aside = store.step_folder(0).with_file_name(".tmp-step-00000000");
        fs::create_dir(&aside).unwrap();
        let from = elsewhere.store().step_folder(2);
        copy(&FILES[..left], &from, &aside);
        assert_recovers(&store, &format!("{left} files left"));
    }
}

#[test]
fn at_no_moment_of_a_removal_is_there_half_a_checkpoint_under_its_name() {
    const MORE: usize = 3000;
    let folder = Folder::new();
    let store = folder.store();
    [1, 2].iter().for_each(|&step| drop(store.save(&small(step)).unwrap()));
    // Enough files for their removal to be seen.
    let first = store.step_folder(1);
    (0..MORE).for_each(|number| fs::write(first.join(format!("{number}")), "").unwrap());
    std::thread::scope(|scope| {
        let pruning = scope.spawn(|| store.prune(1, &[]).unwrap());
        while !pruning.is_finished() {
            let there = fs::read_dir(&first).map_or(0, |entries| entries.count());
            assert!(there == FILES.len() + MORE || !first.exists(), "{there} files left");
        }
        assert_eq!(pruning.join().unwrap(), [1]);
    });
    assert_eq!(names(first.parent().unwrap()), ["step-00000002"]);
}

#[test]
fn a_name_that_reached_the_disk_before_its_files_is_skipped() {
    for (lost, file) in FILES.iter().enumerate() {
        let (_folder, store, _) = before_the_crash();
        store.save(&small(2)).unwrap();
        fs::write(store.step_folder(2).join(file), "").unwrap();
        let (newest, skipped) = store.newest_good().unwrap();
        assert_eq!((newest, skipped.len()), (Some(small(1)), 1), "{lost}");
        assert_eq!(store.prune(1, &[]), Ok(vec![]));
    }
}

/// The process that is killed below: saves and prunes until it dies, and says each step that it was told is safe.
#[test]
fn child_that_saves_for_ever() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let store = Store::open(folder).unwrap();
    let first = store.steps().unwrap().last().map_or(1, |last| last + 1);
    for step in first.. {
        if let Err(error) = store.save(&small(step)) {
            println!("\nfailed {error}");
            std::process::exit(1);
        }
        println!("\nsaved {step}");
        store.prune(2, &[]).unwrap();
    }
}

fn child(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "crash::child_that_saves_for_ever", "--nocapture"])
        .env(CHILD, folder)
        .stdout(Stdio::piped());
    command
}

#[test]
fn a_process_killed_at_any_moment_loses_nothing_that_it_was_told_is_safe() {
    let folder = Folder::new();
    let path = folder.path().join("checkpoints");
    let mut safe = 0;
    for round in 0..400 {
        let mut process = child(&path).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(15 + 7 * round));
        process.kill().unwrap();
        let said = String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap();
        safe = said.lines().filter_map(|line| line.strip_prefix("saved ")?.parse().ok()).next_back().unwrap_or(safe);
        let store = folder.store();
        let (newest, skipped) = store.newest_good().unwrap();
        assert!(skipped.is_empty(), "{skipped:?}");
        let newest = newest.map_or(0, |newest| {
            assert_eq!(newest, small(newest.header().step));
            newest.header().step
        });
        assert!(newest == safe || newest == safe + 1, "told {safe}, found {newest}");
        safe = newest;
        // A busy machine takes more deaths for as many saves.
        if round >= 25 && safe >= 10 {
            return;
        }
    }
    panic!("only {safe} saves in all");
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_takes_no_more_is_one_clear_sentence_and_loses_nothing() {
    let folder = Folder::new();
    let path = folder.path().join("checkpoints");
    let store = folder.store();
    store.save(&small(1)).unwrap();
    // No file may grow beyond 0 bytes, and the system says so instead of ending the process.
    let limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" --exact crash::child_that_saves_for_ever --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stdout);
    let failed = said.lines().find_map(|line| line.strip_prefix("failed ")).unwrap_or_else(|| panic!("{said}"));
    let file = path.join(".tmp-step-00000002").join("weights.safetensors");
    assert_eq!(failed, format!("cannot write `{}`: File too large (os error 27)", file.display()));
    assert_eq!(names(&path), ["step-00000001"]);
    assert_recovers(&store, "after a full disk");
}
