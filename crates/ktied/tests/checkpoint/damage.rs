//! Whatever happens to a file: it is found, named and skipped, nothing is deleted, and the checkpoint before is loaded.

use std::fs;
use std::path::Path;

use ktied::checkpoint::{CheckpointError, Damage, Store};

use crate::support::{Folder, names, small};

const FILES: [&str; 3] = ["weights.safetensors", "train_state.safetensors", "manifest.json"];

fn two_steps() -> (Folder, Store) {
    let folder = Folder::new();
    let store = folder.store();
    store.save(&small(1)).unwrap();
    store.save(&small(2)).unwrap();
    (folder, store)
}

/// Step 1 is loaded, and step 2 is skipped for what is wrong with `file`.
fn assert_skipped(store: &Store, file: &str, what: &str) -> Damage {
    let before = names(&store.step_folder(2));
    let (newest, skipped) = store.newest_good().unwrap();
    assert_eq!(newest, Some(small(1)), "{what}");
    assert_eq!(names(&store.step_folder(2)), before, "{what}");
    let [skipped] = &skipped[..] else { panic!("{what}: {skipped:?}") };
    assert_eq!(skipped.step, 2);
    assert_eq!(store.load(2), Err(skipped.error.clone()));
    match &skipped.error {
        CheckpointError::Damaged { file: named, damage } => {
            assert_eq!(named, &store.step_folder(2).join(file), "{what}");
            damage.clone()
        }
        other => panic!("{what}: {other}"),
    }
}

fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_anywhere() {
    let (_folder, store) = two_steps();
    for file in FILES {
        let path = store.step_folder(2).join(file);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, bytes).unwrap();
            assert_skipped(&store, file, &format!("{file}, byte {at}"));
        }
        fs::write(&path, good).unwrap();
        assert_eq!(store.newest_good().unwrap(), (Some(small(2)), vec![]));
    }
}

#[test]
fn a_cut_an_addition_and_an_empty_file() {
    for file in FILES {
        let (_folder, store) = two_steps();
        let path = store.step_folder(2).join(file);
        let good = fs::read(&path).unwrap();
        for len in [0, 1, 7, 8, 9, good.len() / 2, good.len() - 1] {
            fs::write(&path, &good[..len]).unwrap();
            let damage = assert_skipped(&store, file, &format!("{file} cut at {len}"));
            if file != "manifest.json" {
                assert_eq!(damage, Damage::Length { expected: good.len() as u64, found: len as u64 });
            }
        }
        for more in [&b"\0"[..], b"\n", &[7; 5000]] {
            fs::write(&path, [&good[..], more].concat()).unwrap();
            assert_skipped(&store, file, &format!("{file} with {} more", more.len()));
        }
    }
}

#[test]
fn a_missing_file() {
    for file in FILES {
        let (_folder, store) = two_steps();
        fs::remove_file(store.step_folder(2).join(file)).unwrap();
        assert_eq!(assert_skipped(&store, file, file), Damage::Missing);
    }
}

#[test]
fn blocks_of_zeros_after_a_power_cut() {
    for file in FILES {
        let (_folder, store) = two_steps();
        rewrite(&store.step_folder(2).join(file), |bytes| bytes.fill(0));
        assert_skipped(&store, file, file);
    }
}

#[test]
fn a_newer_format() {
    let (_folder, store) = two_steps();
    let manifest = store.step_folder(2).join("manifest.json");
    rewrite(&manifest, |bytes| {
        *bytes = String::from_utf8_lossy(bytes).replacen("\"format\": 1", "\"format\": 2", 1).into()
    });
    let damage = assert_skipped(&store, "manifest.json", "format 2");
    assert_eq!(damage, Damage::Format { found: 2, known: 1 });
}

#[test]
fn a_folder_or_file_under_another_name() {
    let (_folder, store) = two_steps();
    fs::rename(store.step_folder(2), store.step_folder(3)).unwrap();
    let (newest, skipped) = store.newest_good().unwrap();
    assert_eq!(newest, Some(small(1)));
    let sentence = skipped[0].to_string();
    assert!(
        sentence.starts_with("the checkpoint of step 3 is skipped: `")
            && sentence.ends_with("manifest.json` is damaged: it is of step 2, in the folder of step 3"),
        "{sentence}"
    );
    fs::rename(store.step_folder(3), store.step_folder(2)).unwrap();
    let [weights, state] =
        ["weights.safetensors", "train_state.safetensors"].map(|file| store.step_folder(2).join(file));
    let (w, s) = (fs::read(&weights).unwrap(), fs::read(&state).unwrap());
    fs::write(&weights, s).unwrap();
    fs::write(&state, w).unwrap();
    assert_skipped(&store, "weights.safetensors", "swapped files");
}

#[test]
fn files_of_another_step_that_are_whole_in_themselves() {
    let (_folder, store) = two_steps();
    fs::copy(store.step_folder(1).join("weights.safetensors"), store.step_folder(2).join("weights.safetensors"))
        .unwrap();
    assert!(matches!(assert_skipped(&store, "weights.safetensors", "old weights"), Damage::Sha256 { .. }));
}

#[test]
fn all_of_them_are_told_and_none_is_loaded_if_none_is_good() {
    let (_folder, store) = two_steps();
    for step in [1, 2] {
        fs::write(store.step_folder(step).join("manifest.json"), "").unwrap();
    }
    let (newest, skipped) = store.newest_good().unwrap();
    assert_eq!(newest, None);
    assert_eq!(skipped.iter().map(|skipped| skipped.step).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(store.steps(), Ok(vec![1, 2]));
}
