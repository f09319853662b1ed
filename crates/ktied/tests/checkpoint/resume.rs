//! A run that was interrupted ends as one that was not, bit for bit.

use burn::module::Module;
use ktied::checkpoint::load_module;
use ktied::train::{Adam, AdamConfig};

use crate::support::{Folder, POSTERIORS, checkpoint, digest, mlp, train, wide_mlp};

fn adam() -> Adam {
    AdamConfig::new().with_clip(Some(0.5)).init()
}

#[test]
fn five_steps_a_restart_and_five_more_are_ten_steps() {
    for posterior in POSTERIORS {
        let mut unbroken = adam();
        let whole = train(mlp(posterior, 0), &mut unbroken, 0, 10);

        let (folder, mut first) = (Folder::new(), adam());
        let half = train(mlp(posterior, 0), &mut first, 0, 5);
        folder.store().save(&checkpoint(5, &half, &first)).unwrap();

        let (newest, skipped) = folder.store().newest_good().unwrap();
        let (newest, mut second) = (newest.unwrap(), adam());
        assert!(skipped.is_empty());
        let resumed = load_module(mlp(posterior, 99), newest.weights()).unwrap();
        second.load_tensors(&resumed, newest.train_state()).unwrap();
        assert_eq!(digest(&resumed, &second), newest.digest(), "{posterior}");
        let resumed = train(resumed, &mut second, 5, 10);
        assert_eq!(digest(&resumed, &second), digest(&whole, &unbroken), "{posterior}");
    }
}

#[test]
fn a_restart_that_forgets_the_moments_is_another_run() {
    let (mut unbroken, mut first) = (adam(), adam());
    let whole = train(mlp("k-tied:2", 0), &mut unbroken, 0, 6);
    let half = train(mlp("k-tied:2", 0), &mut first, 0, 5);
    let resumed = train(half, &mut adam(), 5, 6);
    let weights = |mlp| ktied::checkpoint::module_tensors(mlp).unwrap();
    assert_ne!(weights(&resumed), weights(&whole));
}

#[test]
fn saving_changes_nothing() {
    let (mut watched, mut alone) = (adam(), adam());
    let (mut saved, mut plain) = (mlp("mean-field", 0), mlp("mean-field", 0));
    let folder = Folder::new();
    for step in 0..4 {
        saved = train(saved, &mut watched, step, step + 1);
        folder.store().save(&checkpoint(step + 1, &saved, &watched)).unwrap();
        plain = train(plain, &mut alone, step, step + 1);
    }
    assert_eq!(digest(&saved, &watched), digest(&plain, &alone));
    assert_eq!(saved.num_params(), plain.num_params());
}

#[test]
fn equal_states_are_equal_files() {
    let file = |name: &str| {
        let (folder, mut adam) = (Folder::new(), adam());
        let mlp = train(mlp("k-tied:2", 0), &mut adam, 0, 3);
        let step = folder.store().save(&checkpoint(3, &mlp, &adam)).unwrap();
        std::fs::read(step.join(name)).unwrap()
    };
    for name in ["weights.safetensors", "train_state.safetensors", "manifest.json"] {
        assert_eq!(file(name), file(name), "{name}");
    }
}

/// The process that the test below runs on several numbers of threads: says the digest of a short run.
#[test]
fn child_that_trains_and_says_its_digest() {
    let mut adam = adam();
    let mlp = train(wide_mlp("mean-field", 2000, 0), &mut adam, 0, 3);
    println!("\ndigest {}", digest(&mlp, &adam));
}

#[test]
fn any_number_of_threads_gives_the_same_digest() {
    let digest = |threads: &str| {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "resume::child_that_trains_and_says_its_digest", "--nocapture"])
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        said.lines().find_map(|line| Some(line.strip_prefix("digest ")?.to_string())).expect(&said)
    };
    let one = digest("1");
    assert_eq!([digest("2"), digest("5")], [one.clone(), one]);
}
