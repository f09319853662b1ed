//! How the two tensors of a weight are called.

use std::fmt;
use std::str::FromStr;

use super::{ForeignError, Form, Result};

/// The names of a weight's mean and scale, and the form of the scale, written `MEAN,SCALE[:FORM]`.
///
/// Each name has one `{}`, which stands for the name of the weight. Without a form it is `sigma`. A `?` after SCALE says
/// that a mean may be without it: it is then a point and left alone. A pattern that begins with `{}.` or `{}/` also
/// matches names without that separator, as a layer has them that is saved by itself.
///
/// ```
/// use ktied::foreign::{Form, NamePattern};
/// let pattern: NamePattern = "{}.mu_weight,{}.rho_weight:softplus".parse()?;
/// assert_eq!(pattern.form(), Form::Softplus);
/// assert_eq!(pattern.weight_of_loc("encoder.fc1.mu_weight"), Some("encoder.fc1"));
/// assert_eq!(pattern.scale_name("encoder.fc1"), "encoder.fc1.rho_weight");
/// # Ok::<(), ktied::foreign::ForeignError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    loc: Template,
    scale: Template,
    form: Form,
    scale_is_optional: bool,
}

impl NamePattern {
    /// Weights whose tensors' names are their own with an ending.
    pub(super) fn of_endings(loc: &str, scale: &str, form: Form) -> Self {
        let ending = |text: &str| Template { before: String::new(), after: text.into() };
        Self { loc: ending(loc), scale: ending(scale), form, scale_is_optional: false }
    }

    /// The same pattern for weights that may have no scale.
    pub(super) fn with_optional_scale(self) -> Self {
        Self { scale_is_optional: true, ..self }
    }

    /// How the scale is stored.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Whether a mean may be without a scale.
    pub fn scale_is_optional(&self) -> bool {
        self.scale_is_optional
    }

    /// The weight whose mean has this name.
    pub fn weight_of_loc<'a>(&self, tensor: &'a str) -> Option<&'a str> {
        self.loc.weight_of(tensor)
    }

    /// The weight whose scale has this name.
    pub fn weight_of_scale<'a>(&self, tensor: &'a str) -> Option<&'a str> {
        self.scale.weight_of(tensor)
    }

    /// The name of a weight's mean.
    pub fn loc_name(&self, weight: &str) -> String {
        self.loc.fill(weight)
    }

    /// The name of a weight's scale.
    pub fn scale_name(&self, weight: &str) -> String {
        self.scale.fill(weight)
    }
}

impl FromStr for NamePattern {
    type Err = ForeignError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |reason| ForeignError::Pattern { found: text.into(), reason };
        let (loc, rest) = text.split_once(',').ok_or_else(|| wrong("no comma"))?;
        if rest.contains(',') {
            return Err(wrong("more than one comma"));
        }
        let (scale, form) = split_form(rest)?;
        let (scale, scale_is_optional) = match scale.strip_suffix('?') {
            Some(scale) => (scale, true),
            None => (scale, false),
        };
        let loc = Template::parse(loc).map_err(wrong)?;
        let scale = Template::parse(scale).map_err(wrong)?;
        if loc == scale {
            return Err(wrong("the same name twice"));
        }
        Ok(Self { loc, scale, form, scale_is_optional })
    }
}

/// SCALE and FORM. A number after the last colon is part of the name: TensorFlow calls its variables `kernel:0`.
fn split_form(text: &str) -> Result<(&str, Form)> {
    match text.rsplit_once(':') {
        Some((scale, form)) if form.is_empty() || form.contains(|c: char| !c.is_ascii_digit()) => {
            Ok((scale, form.parse()?))
        }
        _ => Ok((text, Form::Sigma)),
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = if self.scale_is_optional { "?" } else { "" };
        write!(f, "{},{}{optional}:{}", self.loc, self.scale, self.form)
    }
}

/// A name with one gap.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template {
    before: String,
    after: String,
}

impl Template {
    const GAP: &str = "{}";

    fn parse(text: &str) -> Result<Self, &'static str> {
        let (before, after) = text.split_once(Self::GAP).ok_or("a name without {}")?;
        if after.contains(Self::GAP) {
            return Err("a name with more than one {}");
        }
        Ok(Self { before: before.into(), after: after.into() })
    }

    /// The name without its separator, of a weight that has no name: `mu_weight` for `{}.mu_weight`.
    fn nameless(&self) -> Option<&str> {
        let name = self.after.strip_prefix(['.', '/'])?;
        self.before.is_empty().then_some(name)
    }

    fn weight_of<'a>(&self, tensor: &'a str) -> Option<&'a str> {
        match self.nameless() {
            Some(name) if name == tensor => Some(""),
            Some(_) => tensor.strip_suffix(&*self.after).filter(|weight| !weight.is_empty()),
            None => tensor.strip_prefix(&*self.before)?.strip_suffix(&*self.after),
        }
    }

    fn fill(&self, weight: &str) -> String {
        match self.nameless() {
            Some(name) if weight.is_empty() => name.into(),
            _ => format!("{}{weight}{}", self.before, self.after),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.before, Self::GAP, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> NamePattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_pattern_is_what_it_is_written_as() {
        for text in [
            "{}.mu,{}.sigma:sigma",
            "{}.mu_weight,{}.rho_weight:softplus",
            "q/{}/loc:0,q/{}/scale:0:log",
            "{}/bias_loc,{}/bias_scale?:softplus-eps",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
        assert_eq!(parse("{}.mu,{}.sigma"), parse("{}.mu,{}.sigma:sigma"));
        let numbered = parse("{}/loc:0,{}/scale:0");
        assert_eq!((numbered.form(), numbered.scale_name("a")), (Form::Sigma, "a/scale:0".into()));
    }

    #[test]
    fn a_weight_is_what_the_gap_stands_for() {
        let pattern = parse("net.{}.mu,net.{}.rho:softplus");
        assert_eq!(pattern.weight_of_loc("net.a.b.mu"), Some("a.b"));
        assert_eq!(pattern.weight_of_scale("net.a.b.rho"), Some("a.b"));
        for other in ["a.mu", "net.mu", "net.a.mu.x", "net.a.rho", "net..m"] {
            assert_eq!(pattern.weight_of_loc(other), None, "{other}");
        }
        assert_eq!(pattern.weight_of_loc("net..mu"), Some(""));
    }

    #[test]
    fn a_layer_saved_by_itself_has_no_separator() {
        let pattern = parse("{}.mu_weight,{}.rho_weight:softplus");
        assert_eq!(pattern.weight_of_loc("mu_weight"), Some(""));
        assert_eq!(pattern.scale_name(""), "rho_weight");
        assert_eq!(pattern.weight_of_loc(".mu_weight"), None);
        assert_eq!(pattern.weight_of_loc("xmu_weight"), None);
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_reason() {
        let refusal = |text: &str| text.parse::<NamePattern>().unwrap_err().to_string();
        for (text, reason) in [
            ("{}.mu", "no comma"),
            ("{}.mu,{}.rho,{}.x", "more than one comma"),
            ("mu,{}.rho", "a name without {}"),
            ("{}.mu,rho:log", "a name without {}"),
            ("{}.mu.{},{}.rho", "a name with more than one {}"),
            ("{}.mu,{}.mu", "the same name twice"),
            ("", "no comma"),
        ] {
            let rule = "expected MEAN,SCALE or MEAN,SCALE:FORM with one {} in each name, found";
            assert_eq!(refusal(text), format!("name pattern `{text}`: {rule} {reason}"));
        }
        assert!(refusal("{}.mu,{}.rho:softpuls").starts_with("scale form `softpuls` is unknown"));
        assert!(refusal("{}.mu,{}.rho:").starts_with("scale form `` is unknown"));
    }
}
