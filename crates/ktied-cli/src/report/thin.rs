//! Long series as few points that look the same.

/// Columns of a plot that a series is thinned to.
pub(super) const COLUMNS: usize = 300;

/// The points of a series that are drawn: all of them if they are few; otherwise the first, the last, and the lowest and
/// the highest of each of `columns` equal parts of the range of x, in their order. A part with a value that is not finite
/// keeps one of those too, so that the line is broken there.
///
/// Points must be in the order of x; `place` says where along the axis an x is.
pub(super) fn thinned(points: &[(f64, f64)], columns: usize, place: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let (low, high) = (place(first.0), place(last.0));
    let column = |x: f64| (((place(x) - low) / (high - low) * columns as f64) as usize).min(columns - 1);
    let mut kept: Vec<usize> = vec![0, points.len() - 1];
    let indexed: Vec<(usize, usize)> =
        points.iter().enumerate().map(|(index, point)| (column(point.0), index)).collect();
    for part in indexed.chunk_by(|one, next| one.0 == next.0) {
        let finite = || part.iter().map(|(_, index)| *index).filter(|index| points[*index].1.is_finite());
        let by_height = |one: &usize, other: &usize| points[*one].1.total_cmp(&points[*other].1);
        kept.extend(finite().min_by(by_height));
        kept.extend(finite().max_by(by_height));
        kept.extend(part.iter().map(|(_, index)| *index).find(|index| !points[*index].1.is_finite()));
    }
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| points[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(count: usize) -> Vec<(f64, f64)> {
        (0..count).map(|i| (i as f64, ((i * 7919) % 1009) as f64)).collect()
    }

    #[test]
    fn the_lowest_and_the_highest_of_every_column_are_kept() {
        let mut points = noisy(100_000);
        (points[31_415].1, points[27_182].1) = (5000.0, -5000.0);
        let kept = thinned(&points, 300, |x| x);
        assert!(kept.len() <= 602 && kept.len() > 590, "{}", kept.len());
        assert!(kept.contains(&points[31_415]) && kept.contains(&points[27_182]));
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0), "in their order");
        let extremes = |points: &[(f64, f64)], column: usize| {
            let inside = points.iter().filter(|p| (p.0 / 99_999.0 * 300.0) as usize == column).map(|p| p.1);
            inside.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)))
        };
        for column in [0, 1, 150, 298] {
            assert_eq!(extremes(&kept, column), extremes(&points, column), "column {column}");
        }
    }

    #[test]
    fn a_value_that_is_not_finite_still_breaks_the_line() {
        let mut points = noisy(50_000);
        points[40_000].1 = f64::NAN;
        assert_eq!(thinned(&points, 300, |x| x).iter().filter(|point| point.1.is_nan()).count(), 1);
        points.iter_mut().for_each(|point| point.1 = f64::NAN);
        assert!(thinned(&points, 300, |x| x).iter().all(|point| point.1.is_nan()));
    }

    #[test]
    fn short_series_stay_as_they_are() {
        assert_eq!(thinned(&noisy(600), 300, |x| x), noisy(600));
        assert!(thinned(&[], 300, |x| x).is_empty());
        let same = vec![(1.0, 2.0); 5000];
        assert!(thinned(&same, 300, |x| x).len() <= 4, "one x for all");
    }
}
