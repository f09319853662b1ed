//! Colours: series that people with any sight can tell apart, and a scale whose steps look equal.

/// A colour as red, green and blue.
pub(super) type Rgb = [u8; 3];

/// Of series, in their order: those of Okabe and Ito that stand out on white.
pub(super) const SERIES: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
/// Of lines without markers, in their order. Five, so that colour and dash together repeat only after 35 series.
pub(super) const DASHES: [&str; 5] = ["none", "6 3", "2 2", "8 3 2 3", "12 4"];
/// Cells that have no number.
pub(super) const MISSING: Rgb = [0xcc; 3];
pub(super) const TEXT: &str = "#222222";
pub(super) const QUIET: &str = "#666666";
pub(super) const SPINE: &str = "#888888";
pub(super) const GRID: &str = "#E4E4E4";

/// The dash of the series of this index, as SVG writes it.
pub(crate) fn dash(index: usize) -> &'static str {
    DASHES[index % DASHES.len()]
}

/// The colour of the series of this index.
pub(crate) fn series(index: usize) -> &'static str {
    SERIES[index % SERIES.len()]
}

/// Rules of a style sheet that give a picture inside a page the page's colours: series `--series-0` and so on, `--text`,
/// `--quiet`, `--spine` and `--grid`. A rule goes before an attribute, so the picture itself stays as it is.
pub(crate) fn rules() -> String {
    let series = SERIES.iter().enumerate().map(|(index, colour)| (*colour, format!("series-{index}")));
    let others = [(TEXT, "text"), (QUIET, "quiet"), (SPINE, "spine"), (GRID, "grid")];
    let all = series.chain(others.map(|(colour, name)| (colour, name.to_owned())));
    let rule = |(colour, name): (&str, String)| {
        let of = |what: &str| format!("svg[{what}=\"{colour}\"],svg [{what}=\"{colour}\"]{{{what}:var(--{name})}}\n");
        of("fill") + &of("stroke")
    };
    all.map(rule).collect()
}

/// Viridis at 0, 1/16, …, 1.
const VIRIDIS: [Rgb; 17] = [
    [68, 1, 84],
    [72, 24, 106],
    [71, 45, 123],
    [66, 64, 134],
    [59, 82, 139],
    [51, 99, 141],
    [44, 114, 142],
    [38, 130, 142],
    [33, 145, 140],
    [31, 160, 136],
    [40, 174, 128],
    [63, 188, 115],
    [94, 201, 98],
    [132, 212, 75],
    [173, 220, 48],
    [216, 226, 25],
    [253, 231, 37],
];

/// Viridis at a fraction of its length, straight between the anchors; beyond the ends, the ends.
pub(super) fn viridis(fraction: f64) -> Rgb {
    let steps = VIRIDIS.len() - 1;
    let place = fraction.clamp(0.0, 1.0) * steps as f64;
    let below = (place as usize).min(steps - 1);
    let (from, to) = (VIRIDIS[below], VIRIDIS[below + 1]);
    std::array::from_fn(|channel| {
        let (from, to) = (f64::from(from[channel]), f64::from(to[channel]));
        (from + (to - from) * (place - below as f64)).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_colour_of_its_own_for_every_colour_of_a_picture() {
        let rules = rules();
        for colour in SERIES.into_iter().chain([TEXT, QUIET, SPINE, GRID]) {
            for what in ["fill", "stroke"] {
                assert_eq!(rules.matches(&format!("svg [{what}=\"{colour}\"]{{{what}:var(--")).count(), 1, "{colour}");
            }
        }
    }

    #[test]
    fn the_scale_begins_and_ends_where_viridis_does() {
        assert_eq!(viridis(0.0), [68, 1, 84]);
        assert_eq!(viridis(1.0), [253, 231, 37]);
        assert_eq!(viridis(0.5), [33, 145, 140]);
        assert_eq!([viridis(-3.0), viridis(f64::INFINITY)], [viridis(0.0), viridis(1.0)]);
    }

    /// matplotlib's viridis at 0.1, 0.3, 0.7 and 0.9, between our anchors.
    #[test]
    fn colours_between_anchors_are_those_of_the_full_table() {
        let golden = [(0.1, [72, 36, 117]), (0.3, [53, 95, 141]), (0.7, [68, 191, 112]), (0.9, [189, 223, 38])];
        for (fraction, colour) in golden {
            let near = viridis(fraction).iter().zip(colour).all(|(ours, theirs)| ours.abs_diff(theirs) <= 3);
            assert!(near, "{fraction}: {:?}, expected {colour:?}", viridis(fraction));
        }
    }

    #[test]
    fn the_scale_grows_lighter_all_the_way() {
        let light = |[r, g, b]: Rgb| 0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b);
        let lights: Vec<f64> = (0..=64).map(|step| light(viridis(f64::from(step) / 64.0))).collect();
        assert!(lights.windows(2).all(|pair| pair[1] > pair[0]));
    }
}
