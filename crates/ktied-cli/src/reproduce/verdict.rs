//! Whether a figure came out as in the paper.

use serde::{Deserialize, Serialize};

use super::document::Row;

/// Standard errors within which two figures are the same.
const ERRORS: f64 = 3.0;

/// What is to be said of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Within three combined standard errors of the paper's; counts are equal.
    Agrees,
    /// Another number, but against every other method it stands as in the paper.
    #[serde(rename = "same conclusion")]
    SameConclusion,
    /// The paper's conclusion does not follow from it.
    Differs,
}

impl Verdict {
    /// As in the documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::SameConclusion => "same conclusion",
            Self::Differs => "differs",
        }
    }
}

/// Two figures with an error between them.
#[derive(Clone, Copy)]
struct Gap {
    difference: f64,
    error: f64,
}

impl Gap {
    fn new([a, b]: [f64; 2], [sem_a, sem_b]: [Option<f64>; 2]) -> Self {
        Self { difference: b - a, error: sem_a.unwrap_or(0.0).hypot(sem_b.unwrap_or(0.0)) }
    }

    fn is_tie(&self) -> bool {
        self.difference.abs() <= ERRORS * self.error
    }
}

/// Gives every row that has a figure of the paper's its verdict; one that has a verdict already keeps it.
pub(crate) fn judge(rows: &mut [Row]) {
    let verdicts: Vec<_> = rows.iter().map(|row| of(row, rows)).collect();
    for (row, verdict) in rows.iter_mut().zip(verdicts) {
        if let (None, Some((verdict, why))) = (row.verdict, verdict) {
            (row.verdict, row.why) = (Some(verdict), why);
        }
    }
}

fn of(row: &Row, rows: &[Row]) -> Option<(Verdict, Option<String>)> {
    let paper = row.paper?;
    if Gap::new([paper, row.ours], [row.paper_sem, row.sem]).is_tie() {
        return Some((Verdict::Agrees, None));
    }
    let others = rows
        .iter()
        .filter(|other| (&other.model, &other.metric) == (&row.model, &row.metric) && other.method != row.method);
    let mut is_alone = true;
    for other in others {
        let Some(of_other) = other.paper else { continue };
        is_alone = false;
        let theirs = Gap::new([paper, of_other], [row.paper_sem, other.paper_sem]);
        let ours = Gap::new([row.ours, other.ours], [row.sem, other.sem]);
        if let Some(why) = contradiction(row, other, theirs, ours) {
            return Some((Verdict::Differs, Some(why)));
        }
    }
    if is_alone {
        let why = format!("the paper has {paper}, and no other method to compare it with");
        return Some((Verdict::Differs, Some(why)));
    }
    Some((Verdict::SameConclusion, None))
}

/// Where the order of two methods is not the paper's, in words. Where the paper sees no difference, ours may be as large
/// as one that it would not have seen either.
fn contradiction(row: &Row, other: &Row, theirs: Gap, ours: Gap) -> Option<String> {
    let less = |gap: Gap| if gap.difference > 0.0 { "below" } else { "above" };
    let (a, b) = (&row.method, &other.method);
    match (theirs.is_tie(), ours.is_tie()) {
        (true, true) => None,
        (true, false) if ours.difference.abs() <= ERRORS * theirs.error => None,
        (true, false) => Some(format!("in the paper {a} and {b} are equal, here {a} is {} {b}", less(ours))),
        (false, false) if theirs.difference.signum() == ours.difference.signum() => None,
        (false, false) => Some(format!("in the paper {a} is {} {b}, here {}", less(theirs), less(ours))),
        (false, true) => Some(format!("in the paper {a} is {} {b}, here they are equal", less(theirs))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(method: &str, [paper, paper_sem, ours, sem]: [f64; 4]) -> Row {
        Row {
            model: "mlp".into(),
            method: method.into(),
            metric: "nll".into(),
            paper: Some(paper),
            paper_sem: Some(paper_sem),
            ours,
            sem: Some(sem),
            verdict: None,
            why: None,
            seed: None,
            command: String::new(),
            wall_s: 0.0,
        }
    }

    fn verdicts(mut rows: Vec<Row>) -> Vec<&'static str> {
        judge(&mut rows);
        rows.iter().map(|row| row.verdict.map_or("none", Verdict::name)).collect()
    }

    #[test]
    fn figures_within_three_combined_errors_agree() {
        // √(0.3² + 0.4²) = 0.5: 1.5 is the most.
        assert_eq!(verdicts(vec![row("a", [1.0, 0.3, 2.5, 0.4])]), ["agrees"]);
        assert_eq!(verdicts(vec![row("a", [1.0, 0.3, 2.51, 0.4])]), ["differs"]);
    }

    #[test]
    fn counts_must_be_equal() {
        let count = |ours| Row { paper_sem: None, sem: None, ..row("a", [484_008.0, 0.0, ours, 0.0]) };
        assert_eq!(verdicts(vec![count(484_008.0)]), ["agrees"]);
        assert_eq!(verdicts(vec![count(484_009.0)]), ["differs"]);
    }

    #[test]
    fn other_numbers_in_the_same_order_lead_to_the_same_conclusion() {
        let rows = vec![row("mean-field", [1.0, 0.01, 5.0, 0.01]), row("rank-1", [3.0, 0.01, 6.0, 0.01])];
        assert_eq!(verdicts(rows), ["same conclusion", "same conclusion"]);
        // An order of ours that is within the errors is none.
        let rows = vec![row("mean-field", [1.0, 0.01, 5.0, 0.5]), row("rank-1", [3.0, 0.01, 6.0, 0.5])];
        assert_eq!(verdicts(rows), ["differs", "differs"]);
    }

    #[test]
    fn an_order_that_is_turned_around_differs_and_says_where() {
        let mut rows = vec![row("mean-field", [1.0, 0.01, 6.0, 0.01]), row("rank-1", [3.0, 0.01, 5.0, 0.01])];
        judge(&mut rows);
        assert_eq!(rows[0].why.as_deref(), Some("in the paper mean-field is below rank-1, here above"));
        assert_eq!(rows[0].verdict, Some(Verdict::Differs));
    }

    #[test]
    fn methods_that_the_paper_cannot_tell_apart_may_differ_by_no_more_than_it_could_see() {
        let pair = |ours| vec![row("rank-2", [1.0, 0.1, 5.0, 0.01]), row("rank-3", [1.1, 0.1, ours, 0.01])];
        assert_eq!(verdicts(pair(5.4)), ["same conclusion"; 2]);
        assert_eq!(verdicts(pair(5.5)), ["differs"; 2]);
    }

    #[test]
    fn a_verdict_that_is_there_and_a_figure_that_the_paper_does_not_have_are_left_alone() {
        let known = Row { verdict: Some(Verdict::Agrees), ..row("a", [0.0, 0.0, 9.0, 0.0]) };
        let ours = Row { paper: None, ..row("b", [0.0, 0.0, 9.0, 0.0]) };
        assert_eq!(verdicts(vec![known, ours]), ["agrees", "none"]);
    }
}
