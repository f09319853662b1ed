//! Large matrices as few cells, each the average of the area that it covers.

/// The most cells along a side.
pub(super) const MAX_CELLS: usize = 256;

/// Averages of equal areas of a matrix; NaN where an area has no finite value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Averages {
    pub(super) num_rows: usize,
    pub(super) num_cols: usize,
    /// Row after row.
    pub(super) values: Vec<f64>,
}

impl Averages {
    /// Averages `values`, row after row, to at most 256×256 cells:
    ///
    /// cell = Σ w·v / Σ w, w the area of a value that is inside the cell.
    ///
    /// Values that are not finite, or that are missing at the end, do not count.
    pub(super) fn new(shape: (usize, usize), values: &[f64]) -> Self {
        Self::within(shape, values, (MAX_CELLS, MAX_CELLS))
    }

    /// The same to at most so many rows and columns of cells.
    pub(super) fn within((num_rows, num_cols): (usize, usize), values: &[f64], most: (usize, usize)) -> Self {
        let (rows, cols) = (Side::of(num_rows, most.0), Side::of(num_cols, most.1));
        let value =
            |row: usize, col: usize| row.checked_mul(num_cols).and_then(|start| values.get(start + col)).copied();
        let mut cells = Vec::with_capacity(rows.cells * cols.cells);
        for row in 0..rows.cells {
            cells.extend((0..cols.cells).map(|col| average(rows.parts(row), || cols.parts(col), value)));
        }
        Self { num_rows: rows.cells, num_cols: cols.cells, values: cells }
    }
}

/// The average of one cell, whose rows and columns come with their weights.
fn average<I: Iterator<Item = (usize, u64)>>(
    rows: impl Iterator<Item = (usize, u64)>,
    cols: impl Fn() -> I,
    value: impl Fn(usize, usize) -> Option<f64>,
) -> f64 {
    let (mut sum, mut area) = (0.0, 0.0);
    for (row, tall) in rows {
        for (col, wide) in cols() {
            if let Some(value) = value(row, col).filter(|value| value.is_finite()) {
                let weight = (tall * wide) as f64;
                sum += weight * value;
                area += weight;
            }
        }
    }
    sum / area
}

/// One side of the matrix: so many values in so many cells.
#[derive(Clone, Copy, Debug)]
struct Side {
    values: usize,
    cells: usize,
}

impl Side {
    fn of(values: usize, most: usize) -> Self {
        Self { values, cells: values.min(most.max(1)) }
    }

    /// The values inside a cell with the length of each that is inside, in units of which a value has as many as there
    /// are cells and a cell as many as there are values: whole numbers, so nothing is lost.
    fn parts(self, cell: usize) -> impl Iterator<Item = (usize, u64)> {
        let (values, cells) = (self.values as u64, self.cells.max(1) as u64);
        let (start, end) = (cell as u64 * values, (cell as u64 + 1) * values);
        (start / cells..end.div_ceil(cells)).map(move |value| {
            let inside = end.min((value + 1) * cells) - start.max(value * cells);
            (value as usize, inside)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(num_rows: usize, num_cols: usize) -> Vec<f64> {
        (0..num_rows * num_cols)
            .map(|index| ((index * 7919) % 1013) as f64 / 100.0 - (index / num_cols) as f64 / 50.0)
            .collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// For each cell of a side the values that it overlaps, and by how much, in fractions of a value.
    fn overlaps(num_values: usize) -> Vec<Vec<(usize, f64)>> {
        let ratio = num_values as f64 / num_values.min(256) as f64;
        let overlap = |cell: usize, value: usize| {
            ((cell + 1) as f64 * ratio).min(value as f64 + 1.0) - (cell as f64 * ratio).max(value as f64)
        };
        let of =
            |cell: usize| (0..num_values).map(move |value| (value, overlap(cell, value))).filter(|part| part.1 > 0.0);
        (0..num_values.min(256)).map(|cell| of(cell).collect()).collect()
    }

    /// The definition, from fractions of areas.
    fn direct((num_rows, num_cols): (usize, usize), values: &[f64]) -> Vec<f64> {
        let (rows, cols) = (overlaps(num_rows), overlaps(num_cols));
        let area = (num_rows * num_cols) as f64 / (rows.len() * cols.len()) as f64;
        let along = |row: usize, col: &[(usize, f64)]| -> f64 {
            col.iter().map(|(value, wide)| wide * values[row * num_cols + value]).sum()
        };
        let cell = |row: &[(usize, f64)], col: &[(usize, f64)]| -> f64 {
            row.iter().map(|(value, tall)| tall * along(*value, col)).sum::<f64>() / area
        };
        rows.iter().flat_map(|row| cols.iter().map(move |col| cell(row, col))).collect()
    }

    #[test]
    fn averages_are_those_of_the_definition() {
        for shape in [(784, 10), (300, 257), (3, 1000)] {
            let values = matrix(shape.0, shape.1);
            let found = Averages::new(shape, &values);
            assert_eq!((found.num_rows, found.num_cols), (shape.0.min(256), shape.1.min(256)));
            for (cell, expected) in found.values.iter().zip(direct(shape, &values)) {
                // Sums of at most a few dozen numbers below 30.
                assert!((cell - expected).abs() < 1e-10, "{shape:?}: {cell}, expected {expected}");
            }
        }
    }

    #[test]
    fn the_mean_is_preserved() {
        for shape in [(784, 400), (257, 256), (1, 5000), (1000, 999)] {
            let values = matrix(shape.0, shape.1);
            let found = mean(&Averages::new(shape, &values).values);
            assert!((found - mean(&values)).abs() < 1e-9, "{shape:?}: {found}, expected {}", mean(&values));
        }
    }

    #[test]
    fn small_matrices_stay_as_they_are() {
        let values = matrix(256, 3);
        let found = Averages::new((256, 3), &values).values;
        // A weight is multiplied and divided out again, each time rounded.
        let near = |(cell, value): (&f64, &f64)| (cell - value).abs() <= 2.0 * f64::EPSILON * value.abs();
        assert!(found.len() == values.len() && found.iter().zip(&values).all(near));
        assert!(Averages::new((0, 7), &[]).values.is_empty());
    }

    #[test]
    fn values_that_are_no_numbers_do_not_count() {
        let mut values = vec![2.0; 512 * 2];
        (values[0], values[1]) = (f64::NAN, f64::INFINITY);
        let found = Averages::new((512, 2), &values);
        assert_eq!(
            &found.values[..2],
            [2.0, 2.0],
            "the second column of the first cell has one value left, and it counts"
        );
        let found = Averages::new((2, 2), &values[..3]);
        assert!(
            found.values[0].is_nan() && found.values[1].is_nan() && found.values[2] == 2.0 && found.values[3].is_nan()
        );
    }
}
