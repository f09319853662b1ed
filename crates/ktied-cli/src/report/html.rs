//! HTML as text: the one place where words from outside become part of a page.

use crate::picture::entity;

/// The attributes of an element, in the order in which they are written.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a str)];

/// Elements that have no end.
const VOID: [&str; 6] = ["br", "img", "input", "meta", "hr", "wbr"];

/// A page that is being written.
#[derive(Debug, Default)]
pub(crate) struct Html {
    text: String,
    open: Vec<&'static str>,
}

impl Html {
    /// Begins an element; what is written until [`close`](Self::close) is inside.
    pub(super) fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.begin(tag, attributes);
        if !VOID.contains(&tag) {
            self.open.push(tag);
        }
    }

    pub(super) fn close(&mut self) {
        if let Some(tag) = self.open.pop() {
            self.text.push_str("</");
            self.text.push_str(tag);
            self.text.push('>');
        }
    }

    /// An element around what `inside` writes.
    pub(super) fn around(&mut self, tag: &'static str, attributes: Attributes<'_>, inside: impl FnOnce(&mut Self)) {
        let depth = self.open.len();
        self.open(tag, attributes);
        inside(self);
        while self.open.len() > depth {
            self.close();
        }
        self.text.push('\n');
    }

    /// An element with text inside.
    pub(super) fn words(&mut self, tag: &'static str, attributes: Attributes<'_>, content: &str) {
        self.begin(tag, attributes);
        self.text(content);
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push_str(">\n");
    }

    /// Text, whatever it holds.
    pub(super) fn text(&mut self, content: &str) {
        escape(content, &mut self.text);
    }

    /// A name from outside: short, and apart from the direction in which the words around it are read.
    pub(super) fn name(&mut self, name: &str) {
        self.begin("bdi", &[]);
        self.text(&short(name));
        self.text.push_str("</bdi>");
    }

    /// What this program itself made of pictures, style and script, as it is.
    pub(super) fn trusted(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    fn begin(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(value, &mut self.text);
            self.text.push('"');
        }
        self.text.push('>');
    }

    /// The page; what is still open is closed.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }
}

/// Makes any text safe inside an element and inside an attribute. Control characters other than tabs and line feeds,
/// which HTML does not allow, become the character for what cannot be shown.
fn escape(content: &str, text: &mut String) {
    for character in content.chars() {
        match character {
            character if let Some(entity) = entity(character) => text.push_str(entity),
            '\n' | '\t' => text.push(character),
            '\r' => text.push_str("&#13;"),
            character if character.is_control() => text.push('\u{fffd}'),
            character => text.push(character),
        }
    }
}

/// The longest that a name is shown, in characters.
const MAX_NAME: usize = 60;

/// A name that fits into a line: breaks become arrows, and what is too long loses its middle.
pub(crate) fn short(name: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\r' => '↵',
        character if character.is_control() => '\u{fffd}',
        character => character,
    };
    let characters: Vec<char> = name.chars().map(shown).collect();
    if characters.len() <= MAX_NAME {
        return characters.into_iter().collect();
    }
    let (first, last) = (&characters[..MAX_NAME / 2], &characters[characters.len() - MAX_NAME / 3..]);
    first.iter().chain(['…'].iter()).chain(last).collect()
}

/// A document of JSON that cannot end the element that it stands in.
pub(super) fn json_in_html(document: &serde_json::Value) -> String {
    document.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_leave_its_place() {
        let hostile = "<script>alert('a' & \"b\")</script>\u{0}\u{1b}";
        let mut html = Html::default();
        html.open("p", &[("title", hostile)]);
        html.text(hostile);
        html.name(hostile);
        let escaped = "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;\u{fffd}\u{fffd}";
        assert_eq!(html.finish(), format!("<p title=\"{escaped}\">{escaped}<bdi>{escaped}</bdi></p>"));
        let json = json_in_html(&serde_json::json!({ "a": "</script><!--\u{2028}" }));
        assert!(!json.contains('<') && !json.contains('\u{2028}'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).expect("JSON")["a"], "</script><!--\u{2028}");
    }

    #[test]
    fn names_are_short_and_in_one_line() {
        assert_eq!(short("two\nlines"), "two↵lines");
        let long = short(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), 51);
        assert!(long.contains('…'));
        assert_eq!(short("שלום"), "שלום");
    }

    #[test]
    fn elements_end_where_they_should() {
        let mut html = Html::default();
        html.around("div", &[], |html| {
            html.open("p", &[]);
            html.open("img", &[("alt", "")]);
        });
        html.open("b", &[]);
        assert_eq!(html.finish(), "<div><p><img alt=\"\"></p></div>\n<b></b>");
    }
}
