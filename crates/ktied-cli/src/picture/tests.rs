//! Whole pictures: well formed, of the right size, with every colour that they should have, and the same each time.

use std::path::PathBuf;

use resvg::usvg::roxmltree::Document;

use super::colour::{SERIES, viridis};
use super::*;

/// Set to a folder to see what the pictures of these tests look like.
const SHOW: &str = "KTIED_SHOW_PICTURES";

/// Pixels of a picture's PNG, after the SVG was found to be well formed.
struct Drawn {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
    svg: String,
}

fn draw(name: &str, figure: &Figure) -> Drawn {
    let (svg, folder) = (figure.to_svg(), std::env::var_os(SHOW).map(PathBuf::from));
    if let Some(folder) = folder {
        figure.write(&folder.join(name)).expect("the folder is there");
    }
    Document::parse(&svg).expect("well formed");
    let bytes = raster::png(&svg).expect("can be drawn");
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("small")];
    let info = reader.next_frame(&mut pixels).expect("an image");
    let pixels = pixels.as_chunks().0.to_vec();
    Drawn { width: info.width as usize, height: info.height as usize, pixels, svg }
}

impl Drawn {
    fn count(&self, colour: [u8; 3]) -> usize {
        self.pixels.iter().filter(|pixel| **pixel == colour).count()
    }

    /// The side of the SVG.
    fn side(&self, name: &str) -> usize {
        let document = Document::parse(&self.svg).expect("well formed");
        document.root_element().attribute(name).and_then(|side| side.parse().ok()).expect("a whole number")
    }

    fn texts(&self) -> Vec<String> {
        let document = Document::parse(&self.svg).expect("well formed");
        let texts = document.descendants().filter(|node| node.has_tag_name("text"));
        texts.filter_map(|node| node.text().map(str::to_string)).collect()
    }
}

fn rgb(colour: &str) -> [u8; 3] {
    [1, 3, 5].map(|at| u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal"))
}

fn one(panel: Panel) -> Figure {
    Figure { title: "A figure".into(), panels: vec![panel], columns: 1 }
}

/// A number in (0, 1) that looks random.
fn noise(index: usize) -> f64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / 2f64.powi(53)
}

fn spectra() -> Figure {
    let layers = ["dense_1 (784×400)", "dense_2 (400×400)", "dense_3 (400×10)"];
    let mean =
        |layer: usize, i: usize| 18.0 / (layer + 1) as f64 * (-(i as f64) / 190.0).exp() * (1.0 + 0.02 * noise(i));
    let scale =
        |layer: usize, i: usize| if i == 0 { 31.0 } else { 0.4 / (layer + 1) as f64 * (1.0 - i as f64 / 420.0) };
    let panel = |title: &str, value: &dyn Fn(usize, usize) -> f64| {
        let count = |layer| if layer == 2 { 10 } else { 400 };
        let values = |layer: usize| (0..count(layer)).map(|i| value(layer, i)).collect::<Vec<f64>>();
        let series = layers.iter().enumerate().map(|(layer, name)| Series::ranked(*name, &values(layer))).collect();
        Panel::Chart(Chart::new(title, Axis::linear("component"), Axis::log("singular value"), series))
    };
    let panels = vec![panel("Posterior means", &mean), panel("Posterior standard deviations", &scale)];
    Figure { title: "Spectra of the posterior, mlp on mnist".into(), panels, columns: 2 }
}

fn heat_maps() -> Figure {
    let (rows, cols) = (784, 400);
    let map = |title: &str, seed: usize| {
        let row = |r: usize| 0.06 + 0.05 * ((r % 28) as f64 / 9.0).sin() * ((r / 28) as f64 / 9.0).sin();
        let value = |i: usize| row(i / cols) * (1.0 + 0.3 * noise(i % cols + 1000 * seed)) + 0.01 * noise(i + seed);
        let values: Vec<f64> = (0..rows * cols).map(value).collect();
        HeatMap::new(title, (rows, cols), &values).with_labels("400 outputs", "784 inputs", "standard deviation σ")
    };
    let mut maps = vec![map("Mean field", 1), map("Rank 1", 2), map("Rank 2", 3)];
    HeatMap::share_scale(&mut maps);
    Figure {
        title: "Standard deviations of dense_1".into(),
        panels: maps.into_iter().map(Panel::Heat).collect(),
        columns: 3,
    }
}

fn reliability() -> Figure {
    let bins = (0..15).map(|bin| (f64::from(bin) + 0.5) / 15.0);
    let accuracy = bins.clone().enumerate().map(|(bin, x)| (x, (x - 0.12 * x * noise(bin)).max(0.02)));
    let curve: Vec<(f64, f64)> =
        (1..=200).map(|step| f64::from(step) / 200.0).map(|c| (c, 0.09 * c.powf(3.0))).collect();
    let band = curve.iter().map(|(c, risk)| (*c, risk * 0.8, risk * 1.2 + 0.002));
    let diagram = Chart::new(
        "Reliability, expected calibration error 0.021",
        Axis::linear("confidence").with_range(0.0, 1.0),
        Axis::linear("accuracy").with_range(0.0, 1.0),
        vec![
            Series::new("accuracy", Mark::Bars { width: 1.0 / 15.0 }, accuracy),
            Series::diagonal("perfect calibration"),
        ],
    );
    let risk = Chart::new(
        "Risk of the most certain",
        Axis::linear("coverage"),
        Axis::linear("error rate"),
        vec![
            Series::band("95 % interval", band),
            Series::new("k-tied, rank 2", Mark::Line, curve.clone()),
            Series::new("mean field", Mark::Line, curve.iter().map(|(c, risk)| (*c, risk * 1.3))),
            Series::level("all examples", 0.09),
        ],
    );
    let panels = vec![Panel::Chart(diagram.with_size(260.0, 260.0)), Panel::Chart(risk.with_size(360.0, 260.0))];
    Figure { title: "How far can the network be trusted?".into(), panels, columns: 2 }
}

fn sparsity() -> Figure {
    let kept = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 75.0, 100.0];
    let names = ["signal to noise", "magnitude of the mean", "random"];
    let curve = |rule: usize| kept.map(|x: f64| (x, 98.2 - 60.0 * (rule + 1) as f64 / (1.0 + x * (3.0 - rule as f64))));
    let series = names.iter().enumerate().map(|(rule, name)| Series::new(*name, Mark::LineMarkers, curve(rule)));
    let series = series.chain([Series::upright("paper", 5.0)]).collect();
    let chart =
        Chart::new("Accuracy after pruning", Axis::log("weights kept, %"), Axis::linear("test accuracy, %"), series);
    one(Panel::Chart(chart))
}

#[test]
fn the_png_is_twice_the_size_of_the_svg_and_not_blank() {
    for (name, figure) in
        [("spectra", spectra()), ("heat", heat_maps()), ("reliability", reliability()), ("sparsity", sparsity())]
    {
        let drawn = draw(name, &figure);
        assert_eq!((drawn.width, drawn.height), (2 * drawn.side("width"), 2 * drawn.side("height")), "{name}");
        let white = drawn.count([255; 3]);
        assert!(
            white > drawn.pixels.len() / 10 && white < drawn.pixels.len() * 99 / 100,
            "{name}: {white} white pixels"
        );
        let mut edge = drawn.pixels.iter().take(drawn.width * 8).chain(drawn.pixels.iter().rev().take(drawn.width * 8));
        assert!(edge.all(|pixel| *pixel == [255; 3]), "{name}: something reaches the edge");
    }
}

#[test]
fn every_series_is_there_in_its_colour() {
    for (name, figure, series) in [("spectra", spectra(), 3), ("sparsity", sparsity(), 3)] {
        let drawn = draw(name, &figure);
        for colour in &SERIES[..series] {
            assert!(drawn.count(rgb(colour)) > 50, "{name}: {colour}");
        }
        assert_eq!(drawn.count(rgb(SERIES[series])), 0, "{name}: a colour that nothing has");
    }
}

#[test]
fn a_heat_map_has_the_colours_of_its_values_cell_by_cell() {
    // The scale has 255 steps.
    let values = [50.0, 100.0, 127.0, 60.0, 200.0, f64::NAN];
    let map = HeatMap::new("", (2, 3), &values).with_range(0.0, 254.0);
    let drawn = draw("cells", &one(Panel::Heat(map)));
    let shares: Vec<usize> = values[..5].iter().map(|value| drawn.count(viridis(value / 254.0))).collect();
    // 300×200 of the SVG are 600×400 pixels, so each of the six cells has 40,000; the colour bar adds a few of each.
    assert!(shares.iter().all(|count| (40_000..41_000).contains(count)), "{shares:?}");
    assert_eq!(drawn.count(colour::MISSING), 40_000);
}

#[test]
fn maps_side_by_side_share_one_scale_and_one_colour_bar() {
    let svg = heat_maps().to_svg();
    assert_eq!(svg.matches("<image").count(), 3 + 1);
    assert_eq!(svg.matches("standard deviation σ").count(), 1);
    // Noise of 256×256 cells and 256 colours, and a third more for base64.
    assert!(svg.len() < 400_000, "{} bytes", svg.len());
}

#[test]
fn maps_that_share_a_scale_reach_from_the_smallest_to_the_largest_of_all() {
    let mut maps = [HeatMap::new("", (1, 2), &[0.0, 1.0]), HeatMap::new("", (1, 3), &[f64::NAN, -5.0, 9.0])];
    HeatMap::share_scale(&mut maps);
    assert_eq!(
        maps.each_ref().map(|map| (map.range, map.has_colour_bar)),
        [(Some((-5.0, 9.0)), false), (Some((-5.0, 9.0)), true)]
    );
    HeatMap::share_scale(&mut []);
}

#[test]
fn words_are_drawn_in_the_embedded_font() {
    let title = |title: &str| draw("title", &Figure { title: title.into(), panels: Vec::new(), columns: 1 });
    let ink = |drawn: &Drawn| drawn.pixels.len() - drawn.count([255; 3]);
    assert_eq!(ink(&title("")), 0);
    assert!(ink(&title("σ")) > 100);
    assert!(ink(&title("WWWW")) > 3 * ink(&title("iiii")), "by its own widths");
}

#[test]
fn the_same_figure_gives_the_same_bytes() {
    for figure in [spectra(), heat_maps(), reliability(), sparsity()] {
        let svg = figure.to_svg();
        assert_eq!(svg, figure.to_svg());
    }
    let svg = sparsity().to_svg();
    assert_eq!(raster::png(&svg), raster::png(&svg));
}

#[test]
fn nothing_to_draw_is_said_and_breaks_nothing() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let odd = [(nan, 1.0), (1.0, nan), (inf, -inf), (-inf, 0.0), (0.0, inf), (-1.0, -1.0)];
    let marks = [
        Mark::Line,
        Mark::LineMarkers,
        Mark::Markers,
        Mark::Bars { width: nan },
        Mark::Bars { width: inf },
        Mark::Band,
    ];
    let series = || marks.iter().map(|mark| Series::new("a", *mark, odd)).collect::<Vec<_>>();
    let references = || vec![Series::level("b", nan), Series::upright("c", -1.0), Series::diagonal("d")];
    let log = || Axis::log("x").with_range(-1.0, nan);
    let panels = [
        Panel::Chart(Chart::new("", Axis::linear(""), Axis::linear(""), Vec::new())),
        Panel::Chart(Chart::new("odd", log(), log(), [series(), references()].concat()).with_size(nan, 0.0)),
        Panel::Chart(Chart::new("odd", Axis::linear("x"), log(), [series(), references()].concat())),
        Panel::Heat(HeatMap::new("empty", (0, 0), &[])),
        Panel::Heat(HeatMap::new("no rows", (0, 5), &[])),
        Panel::Heat(HeatMap::new("no numbers", (2, 2), &[nan, inf, -inf, nan]).with_range(nan, 0.0)),
        Panel::Heat(HeatMap::new("too few", (10, 10), &[1.0])),
    ];
    let drawn = draw("odd", &Figure { title: String::new(), panels: panels.to_vec(), columns: 3 });
    assert_eq!(drawn.texts().iter().filter(|text| *text == "no data").count(), 6);
    assert!(!drawn.svg.contains("NaN") && !drawn.svg.contains("inf"));
    for columns in [0, 1, 100] {
        draw("none", &Figure { title: "None".into(), panels: Vec::new(), columns });
    }
}

#[test]
fn values_far_away_and_values_that_are_equal_are_drawn() {
    let far = [(0.0, 1e300), (1.0, -1e300), (2.0, 1e-300), (3.0, 5e-324), (4.0, f64::MAX)];
    let flat = (0..50).map(|index| (f64::from(index), 0.1));
    let zoomed = Axis::linear("y").with_range(0.0, 1e-9);
    let panels = vec![
        Panel::Chart(Chart::new(
            "far",
            Axis::linear("x"),
            Axis::linear("y"),
            vec![Series::new("", Mark::LineMarkers, far)],
        )),
        Panel::Chart(Chart::new(
            "far",
            Axis::linear("x"),
            Axis::log("y"),
            vec![Series::new("", Mark::LineMarkers, far)],
        )),
        Panel::Chart(Chart::new("flat", Axis::linear("x"), Axis::linear("y"), vec![Series::new("", Mark::Line, flat)])),
        Panel::Chart(Chart::new("zoomed", Axis::linear("x"), zoomed, vec![Series::new("", Mark::Line, far)])),
    ];
    let drawn = draw("far", &Figure { title: "Far".into(), panels, columns: 2 });
    assert!(drawn.count(rgb(SERIES[0])) > 200);
}

#[test]
fn lines_end_where_a_fixed_range_ends() {
    let y = Axis::linear("").with_range(0.0, 1.0);
    let x = Axis::linear("").with_range(0.0, 1.0);
    let wild = Series::new("", Mark::Line, [(-5.0, 5.0), (0.5, 0.5), (5.0, 9.0)]);
    let drawn = draw("clipped", &one(Panel::Chart(Chart::new("", x, y, vec![wild]))));
    let colour = rgb(SERIES[0]);
    let rows = drawn.pixels.chunks(drawn.width).map(|row| row.contains(&colour)).collect::<Vec<bool>>();
    let (first, last) = (rows.iter().position(|has| *has), rows.iter().rposition(|has| *has));
    // The plot is 460 pixels high; the line comes from above and turns in its middle, 2 pixels are let over the edge.
    let height = last.zip(first).map(|(last, first)| last - first).expect("drawn");
    assert!((220..=236).contains(&height), "{height}");
}

#[test]
fn text_from_outside_is_only_text() {
    let evil = "<script>alert(\"1\")</script> & 'quotes' ]]> \u{0}\u{1b}[31m";
    let chart = Chart::new(evil, Axis::linear(evil), Axis::linear(evil), vec![Series::ranked(evil, &[1.0, 2.0]); 2]);
    let map = HeatMap::new(evil, (1, 2), &[0.0, 1.0]).with_labels(evil, evil, evil);
    let figure = Figure { title: evil.into(), panels: vec![Panel::Chart(chart), Panel::Heat(map)], columns: 2 };
    let drawn = draw("evil", &figure);
    assert!(!drawn.svg.contains("<script") && drawn.svg.contains("&lt;script&gt;"));
}

#[test]
fn long_words_stay_inside_the_picture() {
    let long = "encoder.block.12.attention.query_key_value.weight.posterior.log_scale ".repeat(3);
    let series = (0..9).map(|index| Series::ranked(format!("{index} {long}"), &[1.0, f64::from(index)])).collect();
    let chart = Chart::new(long.clone(), Axis::linear(long.clone()), Axis::log(long.clone()), series);
    let map = HeatMap::new(long.clone(), (400, 5), &[0.5; 2000]).with_labels(long.clone(), long.clone(), long.clone());
    let panels = vec![Panel::Chart(chart), Panel::Heat(map)];
    let drawn = draw("long", &Figure { title: long, panels, columns: 2 });
    let margin = 20;
    let inside = |x: usize| x >= margin && x < drawn.width - margin;
    let mut outside = drawn.pixels.iter().enumerate().filter(|(index, _)| !inside(index % drawn.width));
    assert!(outside.all(|(_, pixel)| *pixel == [255; 3]));
}

#[test]
fn the_width_of_a_text_is_what_the_renderer_makes_of_it() {
    let text = "Posterior σ: −1.5×10⁻³, “fi” AV To 784×400";
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='900' height='50' font-family='ktied Sans' font-size='20'>\
         <text y='30'>{text}</text></svg>"
    );
    let mut options = resvg::usvg::Options::default();
    options.fontdb_mut().load_font_data(font::FONT.to_vec());
    let tree = resvg::usvg::Tree::from_str(&svg, &options).expect("parses");
    let resvg::usvg::Node::Text(node) = &tree.root().children()[0] else { panic!("no text") };
    let (ours, theirs) = (font::width(text, 20.0), f64::from(node.bounding_box().width()));
    // Coordinates of the renderer are single precision.
    assert!((ours - theirs).abs() < 0.1, "{ours}, the renderer's {theirs}");
}

#[test]
fn readers_for_the_blind_are_told_what_there_is() {
    let svg = reliability().to_svg();
    let document = Document::parse(&svg).expect("well formed");
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    let child = |name: &str| {
        root.children().find(|node| node.has_tag_name(name)).and_then(|node| node.text()).map(str::to_string)
    };
    assert_eq!(child("title").as_deref(), Some("How far can the network be trusted?"));
    let told = child("desc").expect("a description");
    for words in
        ["confidence from 0 to 1", "accuracy: 15 points", "mean field: 200 points", "all examples as a dashed line"]
    {
        assert!(told.contains(words), "{words} is not in: {told}");
    }
}

#[test]
fn a_legend_names_the_series_if_there_are_several() {
    let chart = |count: usize| {
        let series = (0..count).map(|index| Series::ranked(format!("layer {index}"), &[1.0, 2.0])).collect();
        one(Panel::Chart(Chart::new("", Axis::linear(""), Axis::linear(""), series))).to_svg()
    };
    assert_eq!(chart(1).matches(">layer 0</text>").count(), 0);
    assert_eq!(chart(2).matches(">layer 0</text>").count(), 1);
    assert_eq!(chart(40).matches("</text>").count(), chart(1).matches("</text>").count() + 40);
}

#[test]
fn both_files_are_written_and_a_dot_in_the_name_stays() {
    let folder = std::env::temp_dir().join(format!("ktied-picture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let paths = sparsity().write(&folder.join("dense_1.weight")).expect("written");
    assert_eq!(paths, [folder.join("dense_1.weight.svg"), folder.join("dense_1.weight.png")]);
    assert_eq!(std::fs::read_to_string(&paths[0]).expect("text"), sparsity().to_svg());
    assert!(std::fs::read(&paths[1]).expect("bytes").starts_with(b"\x89PNG"));
    std::fs::remove_dir_all(&folder).expect("removed");
    let failure = sparsity().write(&folder.join("nowhere")).expect_err("the folder is gone");
    assert!(failure.to_string().contains("nowhere.svg"), "{failure}");
}
