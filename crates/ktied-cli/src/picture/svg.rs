//! SVG as text: elements on lines of their own, everything escaped, numbers with at most two decimals.

/// What the value of an attribute can be.
pub(super) trait Value {
    /// Writes it as it stands between the quotes.
    fn write_to(&self, text: &mut String);
}

impl Value for f64 {
    fn write_to(&self, text: &mut String) {
        text.push_str(&number(*self));
    }
}

impl Value for str {
    fn write_to(&self, text: &mut String) {
        escape(self, text);
    }
}

impl Value for &str {
    fn write_to(&self, text: &mut String) {
        escape(self, text);
    }
}

impl Value for String {
    fn write_to(&self, text: &mut String) {
        escape(self, text);
    }
}

/// The attributes of an element, in the order in which they are written.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a dyn Value)];

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A document that is being written.
#[derive(Debug, Default)]
pub(super) struct Svg {
    text: String,
    open: Vec<&'static str>,
    has_no_titles: bool,
}

impl Svg {
    /// One for a page that has titles of its own: a browser would show both.
    pub(super) fn without_titles() -> Self {
        Self { has_no_titles: true, ..Self::default() }
    }

    /// What appears where a reader points at the element that is open.
    pub(super) fn title(&mut self, content: &str) {
        if !self.has_no_titles {
            self.words("title", &[], content);
        }
    }

    /// Begins an element; what is written until [`Svg::close`] is inside.
    pub(super) fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.begin(tag, attributes);
        self.text.push_str(">\n");
        self.open.push(tag);
    }

    pub(super) fn close(&mut self) {
        if let Some(tag) = self.open.pop() {
            self.text.push_str(&format!("</{tag}>\n"));
        }
    }

    /// An element with nothing inside.
    pub(super) fn leaf(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.begin(tag, attributes);
        self.text.push_str("/>\n");
    }

    /// An element with text inside.
    pub(super) fn words(&mut self, tag: &str, attributes: Attributes<'_>, content: &str) {
        self.begin(tag, attributes);
        self.text.push('>');
        escape(content, &mut self.text);
        self.text.push_str(&format!("</{tag}>\n"));
    }

    /// A line of text, its baseline at `y`.
    pub(super) fn label(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, content: &str) {
        self.words("text", &[("x", &x), ("y", &y), ("font-size", &size), ("text-anchor", &anchor.name())], content);
    }

    /// A line of text that is read upwards, its middle at `y`, its baseline at `x`.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), size: f64, content: &str) {
        let turned = format!("translate({} {}) rotate(-90)", number(x), number(y));
        let middle = Anchor::Middle.name();
        self.words("text", &[("transform", &turned), ("font-size", &size), ("text-anchor", &middle)], content);
    }

    fn begin(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push_str(&format!(" {name}=\""));
            value.write_to(&mut self.text);
            self.text.push('"');
        }
    }

    /// The document; what is still open is closed.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A coordinate with at most two decimals: 1.5, 0.33, −0 as 0. What is not finite cannot be drawn and becomes 0.
pub(super) fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".into() } else { short.into() }
}

/// What stands for a character that means something to XML and HTML.
pub(crate) fn entity(character: char) -> Option<&'static str> {
    Some(match character {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        _ => return None,
    })
}

/// Makes any text safe inside an element and inside an attribute. Control characters, of which XML forbids most, are
/// removed; those that part words become spaces.
fn escape(content: &str, text: &mut String) {
    for character in content.chars() {
        match character {
            character if let Some(entity) = entity(character) => text.push_str(entity),
            '\n' | '\r' | '\t' => text.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => {}
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use resvg::usvg::roxmltree;

    use super::*;

    fn escaped(content: &str) -> String {
        let mut text = String::new();
        escape(content, &mut text);
        text
    }

    #[test]
    fn text_from_outside_cannot_leave_its_place() {
        assert_eq!(
            escaped("<script>alert('a' & \"b\")</script>"),
            "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;"
        );
        assert_eq!(escaped("a\u{0}b\u{1b}[31mc\u{7f}\u{9b}d\u{ffff}"), "ab[31mcd");
        assert_eq!(escaped("two\nlines\tand\ra tab"), "two lines and a tab");
    }

    #[test]
    fn every_character_survives_or_is_removed_but_never_breaks_the_document() {
        let every: String = (0..0x3000).chain(0xe000..0x10100).filter_map(char::from_u32).collect();
        let mut svg = Svg::default();
        svg.open("svg", &[("aria-label", &every)]);
        svg.words("text", &[], &every);
        let text = svg.finish();
        let document = roxmltree::Document::parse(&text).expect("well formed");
        let kept: String = every.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect();
        let inside = document.descendants().find(|node| node.has_tag_name("text")).and_then(|node| node.text());
        assert_eq!(inside.map(str::trim_start), Some(kept.trim_start()));
        assert_eq!(document.root_element().attribute("aria-label").map(str::trim_start), Some(kept.trim_start()));
    }

    #[test]
    fn numbers_have_at_most_two_decimals() {
        let cases = [(0.0, "0"), (-0.001, "0"), (1.5, "1.5"), (100.0, "100"), (1.0 / 3.0, "0.33"), (-2.999, "-3")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!([number(f64::NAN), number(f64::INFINITY)], ["0", "0"]);
    }

    #[test]
    fn what_is_left_open_is_closed() {
        let mut svg = Svg::default();
        svg.open("svg", &[("width", &10.0)]);
        svg.open("g", &[]);
        svg.leaf("path", &[("d", &"M0 0")]);
        assert_eq!(svg.finish(), "<svg width=\"10\">\n<g>\n<path d=\"M0 0\"/>\n</g>\n</svg>\n");
    }
}
