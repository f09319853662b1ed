//! Rows of a table by their numbers.

use ktied_kernels::embedding::{backward, forward};

use crate::reference::{assert_same_bits_on_any_level, assert_same_bits_on_any_threads, random};

/// Numbers below `rows`, some of them many times and some never.
fn ids(len: usize, rows: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i * 7 + i / 3) % rows) as u32).collect()
}

#[test]
fn rows_are_copied_and_their_gradients_added_up() {
    for (len, rows, columns) in [(1, 1, 1), (7, 3, 5), (5000, 41, 17), (0, 4, 3), (3000, 900, 33)] {
        let (ids, table, dout) = (ids(len, rows), random(rows * columns, 1), random(len * columns, 2));
        let mut out = vec![f32::NAN; len * columns];
        forward(&mut out, &table, &ids, columns).unwrap();
        let mut expected = vec![0.0f32; rows * columns];
        for (place, &id) in ids.iter().enumerate() {
            for j in 0..columns {
                assert_eq!(out[place * columns + j], table[id as usize * columns + j]);
                expected[id as usize * columns + j] += dout[place * columns + j];
            }
        }
        let mut dtable = vec![f32::NAN; rows * columns];
        backward(&mut dtable, &dout, &ids, columns).unwrap();
        assert_eq!(dtable, expected, "{len} of {rows}×{columns}: the same sums in the same order");
    }
}

#[test]
fn threads_and_instruction_sets_change_no_bit() {
    let (ids, dout) = (ids(4000, 700), random(4000 * 24, 2));
    let run = || {
        let mut dtable = vec![0.0; 700 * 24];
        backward(&mut dtable, &dout, &ids, 24).unwrap();
        dtable
    };
    assert_same_bits_on_any_threads("embedding", run);
    assert_same_bits_on_any_level("embedding", run);
}

#[test]
fn a_row_that_is_not_there_is_refused() {
    let refuse = |out: usize, table: usize, ids: &[u32]| {
        forward(&mut vec![0.0; out], &vec![0.0; table], ids, 2).unwrap_err().to_string()
    };
    assert_eq!(refuse(2, 6, &[3]), "embedding: `id` must be below the number of rows, got 3");
    assert_eq!(refuse(3, 6, &[1]), "embedding: `rows` must have length 2, got 3");
    assert_eq!(refuse(2, 7, &[1]), "embedding: `table` must have length 6, got 7");
    let mut dtable = [7.0; 4];
    assert!(backward(&mut dtable, &[1.0; 2], &[2], 2).is_err());
    assert_eq!(dtable, [7.0; 4], "nothing is written before everything is checked");
}
