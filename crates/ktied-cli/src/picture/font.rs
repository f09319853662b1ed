//! The embedded font: how wide a text is, and where it is broken into lines.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Our subset of DejaVu Sans, under the name that its licence asks for.
pub(super) static FONT: &[u8] = include_bytes!("../../assets/ktied-sans.ttf");
/// What pictures ask for: ours in the PNG, and in an SVG the reader's nearest.
pub(super) const FAMILIES: &str = "'ktied Sans', 'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif";
/// From one baseline to the next, in sizes of the font.
pub(super) const LINE: f64 = 1.3;
/// What is longer than so many lines ends with dots.
const MAX_LINES: usize = 4;
/// What a character takes that the font does not have: the width of the box drawn for it.
const UNKNOWN: f64 = 0.6;

static WIDTHS: LazyLock<BTreeMap<char, f64>> = LazyLock::new(|| widths(FONT).unwrap_or_default());

/// The width of a line of text, in the units of `size`. The font has no kerning, so characters add up.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|character| WIDTHS.get(&character).unwrap_or(&UNKNOWN) * size).sum()
}

/// The text in lines no wider than `room`, broken at spaces, and within a word that is wider than that.
pub(super) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.extend(pieces(word, size, room)),
        }
    }
    if lines.len() > MAX_LINES {
        lines.truncate(MAX_LINES);
        if let Some(line) = lines.last_mut() {
            *line = shorten(&format!("{line} …"), size, room);
        }
    }
    lines
}

/// A word in pieces no wider than `room`, each at least one character, parted after dots and dashes if that is enough.
fn pieces(word: &str, size: f64, room: f64) -> Vec<String> {
    let fits = |part: &str| width(part, size) <= room;
    let parts = word.split_inclusive(['.', '_', '/', '-', ',']);
    let small = parts.flat_map(|part| if fits(part) { vec![part] } else { part.split_inclusive(|_| true).collect() });
    let mut pieces: Vec<String> = Vec::new();
    for part in small {
        match pieces.last_mut() {
            Some(piece) if fits(&format!("{piece}{part}")) => piece.push_str(part),
            _ => pieces.push(part.into()),
        }
    }
    pieces
}

/// The text, or as much of its beginning as fits before dots.
pub(super) fn shorten(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.into();
    }
    let mut short = text.trim_end_matches('…').to_string();
    while !short.is_empty() && width(&short, size) + width("…", size) > room {
        short.pop();
    }
    short.trim_end().to_string() + "…"
}

/// Each character's width in sizes of the font, from the tables `head`, `hhea`, `hmtx` and `cmap` (format 4).
fn widths(font: &[u8]) -> Option<BTreeMap<char, f64>> {
    let em = f64::from(u16_at(table(font, b"head")?, 18)?);
    let num_widths = usize::from(u16_at(table(font, b"hhea")?, 34)?);
    let metrics = table(font, b"hmtx")?;
    let advance = |glyph: u16| u16_at(metrics, 4 * usize::from(glyph).min(num_widths.checked_sub(1)?));
    let glyphs = glyphs(segments(table(font, b"cmap")?)?)?;
    Some(
        glyphs
            .into_iter()
            .filter_map(|(character, glyph)| Some((character, f64::from(advance(glyph)?) / em)))
            .collect(),
    )
}

/// The subtable of `cmap` in format 4.
fn segments(cmap: &[u8]) -> Option<&[u8]> {
    let offsets = (0..usize::from(u16_at(cmap, 2)?)).map(|index| u32_at(cmap, 8 + 8 * index));
    offsets.flatten().filter_map(|offset| cmap.get(offset..)).find(|table| u16_at(table, 0) == Some(4))
}

/// Every character that has a glyph. Four arrays of equal length say for each run of characters its end, its start,
/// what to add, and where its own list of glyphs is, if it has one.
fn glyphs(table: &[u8]) -> Option<Vec<(char, u16)>> {
    let bytes = usize::from(u16_at(table, 6)?);
    let mut found = Vec::new();
    for at in (14..14 + bytes).step_by(2) {
        let (last, first) = (u16_at(table, at)?, u16_at(table, at + bytes + 2)?);
        let (delta, list_at) = (u16_at(table, at + 2 * bytes + 2)?, at + 3 * bytes + 2);
        let list = usize::from(u16_at(table, list_at)?);
        for code in first..=last {
            let glyph = match list {
                0 => code.wrapping_add(delta),
                _ => u16_at(table, list_at + list + 2 * usize::from(code - first)).unwrap_or(0).wrapping_add(delta),
            };
            found.extend(char::from_u32(code.into()).filter(|_| glyph > 0).map(|character| (character, glyph)));
        }
    }
    Some(found)
}

/// The table of this name.
fn table<'a>(font: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    let mut records = (0..usize::from(u16_at(font, 4)?)).map(|index| 12 + 16 * index);
    let at = records.find(|at| font.get(*at..at + 4) == Some(name))?;
    let (start, len) = (u32_at(font, at + 8)?, u32_at(font, at + 12)?);
    font.get(start..start.checked_add(len)?)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Widths that fonttools reads from the same file, in units of which 2048 make an em.
    #[test]
    fn widths_are_those_that_fonttools_reads() {
        let expected =
            [(' ', 651), ('0', 1303), ('W', 2025), ('i', 569), ('−', 1716), ('×', 1716), ('⁻', 1081), ('σ', 1298)];
        for (character, units) in expected {
            assert_eq!(width(&character.to_string(), 2048.0), f64::from(units), "{character}");
        }
        assert_eq!(width("\u{4e2d}", 10.0), 6.0, "a character that the font does not have");
    }

    #[test]
    fn the_font_has_every_character_that_pictures_use() {
        let ours = "−×·±≤≥≈∞Σ√‖–—…“”‘’⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₁₂₉ₖᵀ→←µμσρκαβΔ∑∏½";
        let latin = (' '..='~').chain('\u{a0}'..='ÿ').chain('Α'..='Ρ').chain('α'..='ω');
        for character in latin.chain(ours.chars()) {
            assert!(WIDTHS.contains_key(&character), "{character:?}");
        }
    }

    #[test]
    fn a_font_that_was_cut_off_gives_no_widths_and_no_panic() {
        for len in 0..FONT.len().min(4096) {
            let _ = widths(&FONT[..len]);
        }
        assert!(widths(b"").is_none());
    }

    #[test]
    fn lines_are_no_wider_than_the_room() {
        let text = "spectra of the means and of the standard_deviations_of_a_layer_with_a_very_long_name_indeed";
        let lines = wrap(text, 12.0, 200.0);
        assert!(lines.len() > 2 && lines.iter().all(|line| width(line, 12.0) <= 200.0), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        assert_eq!(wrap("one two", 12.0, 1e3), ["one two"]);
        assert!(wrap("  ", 12.0, 100.0).is_empty());
        assert_eq!(wrap("abc", 12.0, 1.0), ["a", "b", "c"]);
        assert_eq!(wrap("encoder.attention.weight", 12.0, 80.0), ["encoder.", "attention.", "weight"]);
    }

    #[test]
    fn what_does_not_fit_ends_with_dots() {
        let lines = wrap(&"many words ".repeat(50), 12.0, 100.0);
        assert_eq!(lines.len(), MAX_LINES);
        assert!(lines[MAX_LINES - 1].ends_with('…') && width(&lines[MAX_LINES - 1], 12.0) <= 100.0);
        assert_eq!(shorten("short", 10.0, 100.0), "short");
        let short = shorten("layer.with.a.long.name", 10.0, 60.0);
        assert!(short.starts_with("layer") && short.ends_with('…') && width(&short, 10.0) <= 60.0, "{short}");
    }
}
