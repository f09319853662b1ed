//! What a store keeps, what it removes, and what it refuses.

use std::fs;

use ktied::checkpoint::{CheckpointError, RunLock, Store, write_file};

use crate::support::{Folder, names, small};

fn store_of(steps: &[u64]) -> (Folder, Store) {
    let folder = Folder::new();
    let store = folder.store();
    steps.iter().for_each(|&step| drop(store.save(&small(step)).unwrap()));
    (folder, store)
}

fn damage(store: &Store, step: u64) {
    fs::write(store.step_folder(step).join("manifest.json"), "{").unwrap();
}

#[test]
fn what_is_saved_is_loaded() {
    let (_folder, store) = store_of(&[7, 1234]);
    assert_eq!(store.steps(), Ok(vec![7, 1234]));
    assert_eq!(names(store.step_folder(7).parent().unwrap()), ["step-00000007", "step-00001234"]);
    assert_eq!(names(&store.step_folder(7)), ["manifest.json", "train_state.safetensors", "weights.safetensors"]);
    assert_eq!(store.load(7), Ok(small(7)));
    assert_eq!(store.newest_good(), Ok((Some(small(1234)), vec![])));
    assert_eq!(small(7).header().instruction_set, ktied::checkpoint::instruction_set());
    let missing = store.load(8).unwrap_err().to_string();
    assert!(missing.starts_with("there is no checkpoint of step 8 in `"), "{missing}");
    assert_eq!(store_of(&[]).1.newest_good(), Ok((None, vec![])));
}

#[test]
fn steps_count_as_numbers_beyond_eight_digits() {
    let (_folder, store) = store_of(&[99_999_999, 100_000_000, 2]);
    assert_eq!(store.steps(), Ok(vec![2, 99_999_999, 100_000_000]));
    assert_eq!(store.newest_good().unwrap().0, Some(small(100_000_000)));
}

#[test]
fn pruning_keeps_the_last_ones_and_the_protected_ones() {
    for (keep, protect, kept) in [
        (2, &[][..], vec![4, 5]),
        (1, &[], vec![5]),
        (0, &[], vec![5]),
        (5, &[], vec![1, 2, 3, 4, 5]),
        (9, &[], vec![1, 2, 3, 4, 5]),
        (2, &[1, 3, 77], vec![1, 3, 4, 5]),
        (1, &[5, 2], vec![2, 5]),
    ] {
        let (_folder, store) = store_of(&[1, 2, 3, 4, 5]);
        let removed = store.prune(keep, protect).unwrap();
        assert_eq!(store.steps(), Ok(kept.clone()), "{keep} {protect:?}");
        let gone: Vec<u64> = (1..=5).filter(|step| !kept.contains(step)).collect();
        assert_eq!(removed, gone);
        assert_eq!(names(store.step_folder(1).parent().unwrap()).len(), kept.len());
    }
}

#[test]
fn pruning_never_removes_the_last_good_one_nor_a_damaged_one() {
    let (_folder, store) = store_of(&[1, 2, 3, 4, 5]);
    [2, 4, 5].iter().for_each(|&step| damage(&store, step));
    assert_eq!(store.prune(1, &[]), Ok(vec![1]));
    assert_eq!(store.steps(), Ok(vec![2, 3, 4, 5]));
    assert_eq!(store.newest_good().unwrap().0, Some(small(3)));
    assert_eq!(store.prune(1, &[]), Ok(vec![]));
}

#[test]
fn a_step_is_saved_once() {
    let (_folder, store) = store_of(&[5]);
    let before = fs::metadata(store.step_folder(5).join("manifest.json")).unwrap().modified().unwrap();
    assert_eq!(store.save(&small(5)), Ok(store.step_folder(5)));
    assert_eq!(fs::metadata(store.step_folder(5).join("manifest.json")).unwrap().modified().unwrap(), before);

    let other = small(6);
    let other = ktied::checkpoint::Checkpoint::new(
        small(5).header().clone(),
        other.weights().clone(),
        other.train_state().clone(),
    );
    let error = store.save(&other.unwrap()).unwrap_err();
    assert!(matches!(error, CheckpointError::OtherTensors { step: 5, .. }), "{error}");
    assert_eq!(store.load(5), Ok(small(5)));
}

#[test]
fn a_damaged_step_makes_room_without_being_deleted() {
    let (_folder, store) = store_of(&[4, 5]);
    for time in 1..=2 {
        damage(&store, 5);
        store.save(&small(5)).unwrap();
        assert_eq!(store.newest_good(), Ok((Some(small(5)), vec![])));
        let aside = store.step_folder(5).with_extension(format!("{time}.damaged"));
        assert_eq!(names(&aside).len(), 3);
    }
    assert_eq!(store.steps(), Ok(vec![4, 5]));
}

#[test]
fn a_path_cannot_be_a_weight_and_a_state() {
    let both = ktied::checkpoint::Checkpoint::new(
        small(1).header().clone(),
        small(1).weights().clone(),
        small(1).weights().clone(),
    );
    assert_eq!(both.unwrap_err().to_string(), "there are two tensors `layers.0.loc`");
}

#[test]
fn a_run_has_one_writer() {
    let folder = Folder::new();
    let run = folder.path().join("runs").join("a");
    let lock = RunLock::acquire(&run).unwrap();
    let error = RunLock::acquire(&run).unwrap_err();
    assert_eq!(error, CheckpointError::Locked { folder: run.clone() });
    assert_eq!(
        error.to_string(),
        format!("the run `{}` is in use by another process: wait for it, or choose another folder", run.display())
    );
    let other = RunLock::acquire(&folder.path().join("runs").join("b"));
    assert!(other.is_ok());
    drop(lock);
    assert!(RunLock::acquire(&run).is_ok());
}

#[test]
fn a_file_where_a_folder_should_be_is_one_clear_sentence() {
    let folder = Folder::new();
    let path = folder.path().join("checkpoints");
    fs::write(&path, "").unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(error.is_io(), "{error}");
    let start = format!("cannot create the folder `{}`: ", path.display());
    assert!(error.to_string().starts_with(&start), "{error}");
    let error = ktied::Error::from(RunLock::acquire(&path).unwrap_err()).to_string();
    assert!(error.starts_with(&start) && !error.contains('\n'), "{error}");
    let error = write_file(&path.join("best"), b"1").unwrap_err().to_string();
    assert!(error.starts_with("cannot "), "{error}");
}
