//! The table of requirements is complete, and the tests and files that it names exist.
//!
//! The table has each id exactly once. A requirement is met by tests and files that exist, or says
//! that it is not met. An erratum that is met names a test whose doc comment names the erratum, and
//! every test that does so is named by its erratum: neither side can drift from the other. The
//! counterparts of the original tests exist too.

use super::source::{self, TestFunction};
use super::{Finding, markdown, tree::Tree};
use std::collections::BTreeMap;

const RULE: &str = "requirements";
const TABLE: &str = "docs/requirements.md";
const OPEN: &str = "not yet";
const DECLINED: &str = "not: ";
/// The header of the last column of the table of original tests.
const COUNTERPART: &str = "counterpart";

/// The letter of each series of ids, how many it has, and whether it lists errata.
const SERIES: [(&str, usize, bool); 9] = [
    ("F", 78, false),
    ("C", 90, false),
    ("K", 18, false),
    ("T", 50, false),
    ("J", 22, false),
    ("Q", 43, true),
    ("L", 8, true),
    ("W", 8, true),
    ("R", 4, true),
];

/// A row of the table.
struct Row<'a> {
    id: &'a str,
    line: usize,
    met_by: &'a str,
}

impl Row<'_> {
    fn is_met(&self) -> bool {
        self.met_by != OPEN && !self.met_by.starts_with(DECLINED)
    }

    fn is_erratum(&self) -> bool {
        SERIES.iter().any(|(letter, _, erratum)| *erratum && self.id.starts_with(letter))
    }

    fn names(&self) -> Vec<&str> {
        markdown::code_spans(self.met_by)
    }

    fn finding(&self, advice: String) -> Finding {
        Finding::new(RULE, TABLE, self.line, format!("{}: {advice}", self.id))
    }
}

/// Finds gaps in the table, names that do not exist, and errata without a test that names them.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(TABLE) else {
        return vec![Finding::new(RULE, TABLE, 1, "write the table of requirements")];
    };
    let rows = rows(text);
    let tests = source::test_functions(tree);
    let counterparts = counterparts(text);
    let met = rows.iter().filter(|row| row.is_met());
    let mut findings = incomplete(&rows);
    findings.extend(met.clone().chain(&counterparts).flat_map(|row| unknown_names(row, tree, &tests)));
    findings.extend(met.filter(|row| row.is_erratum()).filter_map(|row| untested(row, &tests)));
    findings.extend(tests.iter().flat_map(|test| unlisted(test, &rows)));
    findings
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let cells = markdown::cells(line).unwrap_or_default();
        if let [id, .., met_by] = cells[..]
            && is_id(id)
        {
            rows.push(Row { id, line: index + 1, met_by });
        }
    }
    rows
}

/// The rows of the table of original tests.
fn counterparts(text: &str) -> Vec<Row<'_>> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, markdown::cells(line)));
    let table =
        lines.skip_while(|(_, cells)| !cells.as_ref().is_some_and(|cells| cells.ends_with(&[COUNTERPART])));
    let rows = table.skip(2).map_while(|(line, cells)| Some((line, cells?)));
    let rows = rows.filter_map(|(line, cells)| match cells[..] {
        [id, .., met_by] => Some(Row { id, line, met_by }),
        _ => None,
    });
    rows.collect()
}

fn is_id(text: &str) -> bool {
    let known = |(letter, ..): &(&str, usize, bool)| text.strip_prefix(letter).is_some_and(is_number);
    SERIES.iter().any(known)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

fn incomplete(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for row in rows {
        if let Some(first) = seen.insert(row.id.into(), row.line) {
            findings.push(row.finding(format!("stands in line {first} already: keep one")));
        }
    }
    for (letter, count, _) in SERIES {
        for number in 1..=count {
            if seen.remove(&format!("{letter}{number}")).is_none() {
                findings.push(Finding::new(RULE, TABLE, 1, format!("{letter}{number}: give it a row")));
            }
        }
    }
    findings.extend(
        seen.into_iter()
            .map(|(id, line)| Finding::new(RULE, TABLE, line, format!("{id}: there is no such id"))),
    );
    findings
}

fn unknown_names(row: &Row<'_>, tree: &Tree, tests: &[TestFunction]) -> Vec<Finding> {
    let names = row.names();
    if names.is_empty() {
        let advice = format!("name a test or file in backticks, or say `{OPEN}` or `{DECLINED}reason`");
        return vec![row.finding(advice)];
    }
    let exists = |name: &str| match name.contains(['/', '.']) {
        true => tree.has(name),
        false => tests.iter().any(|test| test.name == name),
    };
    let unknown = names.into_iter().filter(|name| !exists(name));
    unknown.map(|name| row.finding(format!("`{name}` is neither a test nor a file"))).collect()
}

fn untested(row: &Row<'_>, tests: &[TestFunction]) -> Option<Finding> {
    let names = row.names();
    let named = tests.iter().filter(|test| names.contains(&test.name.as_str()));
    let proven = named.clone().any(|test| errata_of(&test.documentation).contains(&row.id));
    (!proven).then(|| row.finding(format!("name a test whose doc comment says `Erratum {}.`", row.id)))
}

fn unlisted(test: &TestFunction, rows: &[Row<'_>]) -> Vec<Finding> {
    let lists = |id: &str| rows.iter().any(|row| row.id == id && row.names().contains(&test.name.as_str()));
    let missing = errata_of(&test.documentation).into_iter().filter(|id| !lists(id));
    let advice = |id| format!("name `{}` in the row of {id} in {TABLE}", test.name);
    missing.map(|id| Finding::new(RULE, &test.path, test.line, advice(id))).collect()
}

/// The errata a doc comment names: `Erratum Q1.` or `Errata Q1, Q5 and L2.`
fn errata_of(documentation: &str) -> Vec<&str> {
    let mut errata = Vec::new();
    let mut listing = false;
    for word in documentation.split_whitespace() {
        let id = word.trim_matches(|character: char| !character.is_alphanumeric());
        match id {
            "Erratum" | "Errata" => listing = true,
            "and" => {}
            _ if listing && is_id(id) => {
                errata.push(id);
                listing = !word.ends_with(['.', ';', ')']);
            }
            _ => listing = false,
        }
    }
    errata
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_FILE: &str = "crates/x/src/lib.rs";

    /// A complete table in which the given rows replace open ones.
    fn table(changed: &[(&str, &str)]) -> String {
        let mut text = String::from("| id | ask | met by |\n|---|---|---|\n");
        for (letter, count, _) in SERIES {
            for number in 1..=count {
                let id = format!("{letter}{number}");
                let change = changed.iter().find(|(changed, _)| *changed == id);
                let met_by = change.map_or(OPEN, |(_, met_by)| met_by);
                text += &format!("| {id} | something | {met_by} |\n");
            }
        }
        text
    }

    fn advice(table: &str, rust: &str) -> Vec<String> {
        let findings = check(&Tree::of(&[(TABLE, table), (TEST_FILE, rust)]));
        findings.into_iter().map(|finding| finding.advice).collect()
    }

    #[test]
    fn a_complete_table_that_promises_nothing_is_fine() {
        assert_eq!(advice(&table(&[("F1", "not: out of scope")]), ""), [""; 0]);
    }

    #[test]
    fn a_missing_a_doubled_and_an_unknown_id_are_found() {
        let text = table(&[]).replace("| F7 |", "| F8 |") + "| R5 | more | not yet |\n";
        let found = advice(&text, "");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("F8: stands in line 9 already"));
        assert_eq!(found[1..], ["F7: give it a row", "R5: there is no such id"]);
    }

    #[test]
    fn a_name_that_is_neither_test_nor_file_is_found() {
        let text = table(&[("F1", "`gone`, `claim`, `crates/gone.rs`, `crates/x/src/lib.rs`")]);
        let found = advice(&text, "#[test]\nfn claim() {}\n\nfn gone() {}\n");
        assert_eq!(
            found,
            ["F1: `gone` is neither a test nor a file", "F1: `crates/gone.rs` is neither a test nor a file"]
        );
    }

    #[test]
    fn counterparts_of_original_tests_exist() {
        let rows = "| first | a thing | `claim` |\n| second | a thing | `gone` |\n";
        let header = "\n| original test | what it checks | counterpart |\n|---|---|---|\n";
        let text = table(&[]) + header + rows + "\n| name | here |\n|---|---|\n| one | `two` |\n";
        let found = advice(&text, "#[test]\nfn claim() {}\n");
        assert_eq!(found, ["second: `gone` is neither a test nor a file"]);
    }

    #[test]
    fn an_answer_that_names_nothing_is_found() {
        let found = advice(&table(&[("F1", "yes")]), "");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("F1: name a test or file"));
    }

    #[test]
    fn an_erratum_needs_a_test_that_names_it() {
        let text = table(&[("Q1", "`claim`")]);
        assert_eq!(advice(&text, "/// Erratum Q1.\n#[test]\nfn claim() {}\n"), [""; 0]);
        let found = advice(&text, "/// Something else.\n#[test]\nfn claim() {}\n");
        assert_eq!(found, ["Q1: name a test whose doc comment says `Erratum Q1.`"]);
    }

    #[test]
    fn a_file_alone_does_not_meet_an_erratum() {
        assert_eq!(advice(&table(&[("Q1", "`crates/x/src/lib.rs`")]), "").len(), 1);
    }

    #[test]
    fn a_test_that_names_an_erratum_must_be_named_by_it() {
        let rust = "/// Errata Q1, Q5.\n#[test]\nfn claim() {}\n";
        let found = advice(&table(&[("Q1", "`claim`")]), rust);
        assert_eq!(found, ["name `claim` in the row of Q5 in docs/requirements.md"]);
    }

    #[test]
    fn a_doc_comment_names_errata_one_by_one_or_in_a_list() {
        assert_eq!(errata_of("Holds under load. Erratum Q18. See Q19."), ["Q18"]);
        assert_eq!(errata_of("Errata Q1, Q5 and L2. More."), ["Q1", "Q5", "L2"]);
        assert_eq!(errata_of("Q1 is mentioned, but not as such."), [""; 0]);
    }
}
