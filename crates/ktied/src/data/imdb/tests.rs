//! Tests of the reviews: both forms of the files, the order, the split, and each way of being wrong.

use super::super::bounded::tests::Folder;
use super::*;

/// Two reviews a block, in the order of the file: test/neg, train/neg, test/pos, train/pos.
const JSON: &str = r#"[{"t":"bad one","s":0},{"t":"bad two","s":0},{"t":"poor one","s":0},{"t":"poor two","s":0},
    {"t":"good one","s":1},{"t":"good two","s":1},{"t":"fine one","s":1},{"t":"fine two","s":1}]"#;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.into()).collect()
}

fn tiny() -> Reviews {
    Reviews {
        train: texts(&["poor one", "poor two", "fine one", "fine two"]),
        test: texts(&["bad one", "bad two", "good one", "good two"]),
    }
}

fn refusal(json: &str) -> String {
    parse_json(json.as_bytes(), 2).unwrap_err().to_string()
}

#[test]
fn the_blocks_of_the_json_file_are_test_neg_train_neg_test_pos_train_pos() {
    assert_eq!(parse_json(JSON.as_bytes(), 2), Ok(tiny()));
}

#[test]
fn folders_and_json_give_the_same_reviews_and_digest() {
    let folder = Folder::new();
    for (path, text) in [
        ("train/neg/0_3.txt", "poor one"),
        // 10 comes before 2: the order is that of names, not of numbers.
        ("train/neg/10_4.txt", "poor two"),
        ("train/pos/10_8.txt", "fine one"),
        ("train/pos/2_7.txt", "fine two"),
        ("test/neg/0_2.txt", "bad one"),
        ("test/neg/1_3.txt", "bad two"),
        ("test/pos/0_10.txt", "good one"),
        ("test/pos/1_10.txt", "good two"),
        ("train/unsup/0_0.txt", "nobody reads this"),
    ] {
        folder.file(&format!("aclImdb/{path}"), text);
    }
    assert!(is_in(&folder.0));
    let reviews = read_blocks(&folder.0, 2).unwrap();
    assert_eq!(reviews, tiny());
    assert_eq!(words_digest(&reviews), words_digest(&parse_json(JSON.as_bytes(), 2).unwrap()));
    let error = read_blocks(&folder.0, 3).unwrap_err().to_string();
    assert!(error.ends_with("neg: expected 3 reviews, found 2"), "{error}");
    folder.file("aclImdb/test/pos/2_9.txt", b"\xe9");
    let error = read_blocks(&folder.0, 2).unwrap_err().to_string();
    assert!(error.ends_with("pos: expected 2 reviews, found 3"), "{error}");
    folder.file("aclImdb/test/pos/1_10.txt", b"caf\xe9");
    std::fs::remove_file(folder.0.join("aclImdb/test/pos/2_9.txt")).unwrap();
    let error = read_blocks(&folder.0, 2).unwrap_err().to_string();
    assert!(error.ends_with("1_10.txt: expected UTF-8 text, found other bytes from byte 3 on"), "{error}");
}

#[test]
fn the_digest_sees_words_and_order_but_not_white_space() {
    let (tiny, mut spaced, mut swapped) = (tiny(), tiny(), tiny());
    spaced.train[0] = " poor\tone. ".into();
    swapped.train.swap(0, 1);
    assert_eq!(words_digest(&tiny), words_digest(&spaced));
    assert_ne!(words_digest(&tiny), words_digest(&swapped));
}

#[test]
fn every_way_a_json_file_can_lie_has_its_sentence() {
    assert_eq!(refusal("[]"), "expected 8 reviews, found 0");
    let one_more = JSON.replace(']', r#",{"t":""}]"#);
    assert!(refusal(&one_more).contains("invalid length 9, expected a list of 8 reviews"), "{}", refusal(&one_more));
    let swapped = JSON.replace(r#""poor two","s":0"#, r#""poor two","s":1"#);
    assert_eq!(refusal(&swapped), "review 4: expected sentiment 0 in this block, found 1");
    for bad in ["{}", "[1]", r#"[{"s":0}]"#, r#"[{"t":7}]"#, "[{", &format!("{JSON} x")] {
        assert!(refusal(bad).starts_with("expected a JSON list of reviews"), "{bad}: {}", refusal(bad));
    }
    let without = JSON.replace(r#","s":0"#, "").replace(r#","s":1"#, "");
    assert_eq!(parse_json(without.as_bytes(), 2), Ok(tiny()), "s is not needed");
}

#[test]
fn a_word_belongs_to_its_review_whatever_the_order() {
    let train: Vec<String> = (0..40).map(|i| format!("{} w{i}", if i < 20 { "bad" } else { "good" })).collect();
    let reviews = Reviews { train, test: texts(&["bad", "good"]) };
    let set = data_set("imdb", &reviews, 100, 3, 10);
    assert_eq!((set.train.len(), set.validation.len(), set.test.len()), (30, 10, 2));
    let vocabulary = Vocabulary::new(&reviews.train, 100);
    let mut seen = Vec::new();
    for split in [&set.train, &set.validation] {
        let (Inputs::Tokens { data, width: 3 }, Targets::Classes { labels, num_classes: 2 }) =
            (&split.inputs, &split.targets)
        else {
            panic!("{split:?}")
        };
        for (row, &label) in data.chunks(3).zip(labels) {
            assert_eq!(vocabulary.id(["bad", "good"][label as usize]), Some(row[1]));
            seen.push(row[2]);
        }
        assert!(labels.contains(&0) && labels.contains(&1), "shuffled: {labels:?}");
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 40, "each review once");
    assert_eq!(set.test.targets, Targets::Classes { labels: vec![0, 1], num_classes: 2 });
}

/// The permutation is a constant of the data set: the first and last rows of the real order.
#[test]
fn the_order_of_the_training_reviews_never_changes() {
    let order = permutation(2 * BLOCK, NoiseKey::new(SHUFFLE_SEED).child(Purpose::Shuffle));
    assert_eq!((&order[..3], &order[24_997..]), (&ORDER_START[..], &ORDER_END[..]));
}

const ORDER_START: [usize; 3] = [20773, 12216, 19642];
const ORDER_END: [usize; 3] = [9956, 14784, 17392];
