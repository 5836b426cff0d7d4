//! Fits output to the terminal: prose is wrapped between words. A table that is too wide gets
//! narrower gaps, then loses its optional columns; if that is not enough, it is printed as records,
//! one column per line.
//!
//! Invariant: no word is truncated, because it may be a name that the user copies; a word that is
//! longer than a line overflows. Output to a file or pipe is not wrapped.

use std::fmt;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use crate::escape;

/// A line below the heading, and no other borders.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
/// Columns of space between two table columns: usually, and in a table that is otherwise too wide.
const GAPS: [usize; 2] = [3, 2];
/// Columns of space at both ends of a line together.
const MARGINS: usize = 2;
/// The minimum width of a prose column; below it the table becomes records.
const PROSE_WIDTH_MIN: usize = 24;

/// The width of the terminal in columns; none for a file or pipe.
fn width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0.into())
}

/// Wraps each line of a text and keeps its indentation.
pub fn prose(text: &str) -> String {
    prose_within(text, width())
}

fn prose_within(text: &str, width: Option<usize>) -> String {
    let wrapped = |line: &str| {
        let (indent, words) = line.split_at(line.len() - line.trim_start().len());
        wrapped(indent, words, indent.len(), width)
    };
    text.lines().map(wrapped).collect::<Vec<_>>().join("\n")
}

/// A list of facts: each label with its text beside it.
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let facts: Vec<_> = facts.into_iter().map(|(about, text)| (about, escape::line(text))).collect();
    let facts: Vec<_> = facts.iter().map(|(about, text)| (*about, text.as_ref())).collect();
    facts_within(&facts, "  ", width())
}

fn facts_within(facts: &[(&str, &str)], indent: &str, width: Option<usize>) -> String {
    let column = facts.iter().map(|(about, _)| length(about)).max().unwrap_or(0);
    let hanging = indent.len() + column + 2;
    // In a narrow terminal a long label leaves too little room beside it.
    let hanging = if width.is_some_and(|width| width < hanging * 2) { indent.len() + 2 } else { hanging };
    let wrapped =
        |(about, text): &(&str, &str)| wrapped(&format!("{indent}{about:column$}  "), text, hanging, width);
    facts.iter().map(wrapped).collect::<Vec<_>>().join("\n")
}

/// Wraps words after a prefix; continuation lines are indented by `hanging` columns.
fn wrapped(prefix: &str, words: &str, hanging: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return format!("{prefix}{words}") };
    let (mut text, mut used, mut is_first) = (prefix.to_owned(), length(prefix), true);
    for word in words.split(' ') {
        if !is_first && used + 1 + length(word) > width {
            text += &format!("\n{}", " ".repeat(hanging));
            used = hanging;
        } else if !is_first {
            text.push(' ');
            used += 1;
        }
        text += word;
        used += length(word);
        is_first = false;
    }
    text
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// A table: rows below a heading.
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Whether all columns but the first are numbers, which are right-aligned.
    numbers: bool,
    /// Headings of columns that may be dropped, the first one first.
    optional: Vec<String>,
    width: Option<usize>,
}

/// A layout is wider than the terminal.
struct TooWide;

/// A layout of a table that fits the terminal.
struct Fitted {
    columns: Vec<usize>,
    gap: usize,
    /// The width of the last column, in which its prose is wrapped; `None` without a terminal.
    last_width: Option<usize>,
}

impl Grid {
    /// An empty table of numbers, except for its first column.
    pub fn of_numbers(header: &[&str]) -> Self {
        let header = header.iter().map(|&heading| heading.to_owned()).collect();
        Self { header, rows: Vec::new(), numbers: true, optional: Vec::new(), width: width() }
    }

    /// A table of texts; the last column may be prose.
    pub fn of_texts(header: &[&str], rows: Vec<Vec<String>>) -> Self {
        let rows = rows.into_iter().map(one_line).collect();
        Self { rows, numbers: false, ..Self::of_numbers(header) }
    }

    /// Marks columns that are dropped where the table is too wide, the first one first.
    pub fn optional(self, headings: &[&str]) -> Self {
        Self { optional: headings.iter().map(|&heading| heading.to_owned()).collect(), ..self }
    }

    /// Appends a row.
    pub fn add_row(&mut self, row: Vec<String>) {
        self.rows.push(one_line(row));
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The first layout that fits: with every column if possible, else with fewer.
    fn fitted(&self) -> Option<Fitted> {
        let mut columns: Vec<usize> = (0..self.header.len()).collect();
        let mut optional = self.optional.iter();
        loop {
            for gap in GAPS {
                if let Ok(last_width) = self.last_width(&columns, gap) {
                    return Some(Fitted { columns, gap, last_width });
                }
            }
            let dropped = optional.next()?;
            columns.retain(|column| self.header[*column] != *dropped);
        }
    }

    /// The width that the other columns leave to the last one; an error if that is too little.
    fn last_width(&self, columns: &[usize], gap: usize) -> Result<Option<usize>, TooWide> {
        let (Some(width), Some((&last, others))) = (self.width, columns.split_last()) else {
            return Ok(None);
        };
        let cells = |column: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.get(column));
            cells.chain([&self.header[column]]).map(String::as_str)
        };
        let widest = |column: usize| cells(column).map(length).max().unwrap_or(0);
        let others: usize = others.iter().map(|column| widest(*column) + gap).sum();
        let longest_word = cells(last).flat_map(|cell| cell.split(' ')).map(length).max().unwrap_or(0);
        let left = width.checked_sub(others + MARGINS).ok_or(TooWide)?;
        if left < widest(last) && (self.numbers || left < longest_word.max(PROSE_WIDTH_MIN)) {
            return Err(TooWide);
        }
        Ok(Some(left))
    }

    /// The cells of a row that the layout shows.
    fn cells(&self, row: &[String], fitted: &Fitted) -> Vec<String> {
        let mut cells: Vec<String> =
            fitted.columns.iter().filter_map(|column| row.get(*column)).cloned().collect();
        if let Some(last) = cells.last_mut() {
            *last = wrapped("", last, 0, fitted.last_width);
        }
        cells
    }

    fn record(&self, row: &[String]) -> String {
        let facts = self.header.iter().zip(row).map(|(heading, cell)| (heading.as_str(), cell.as_str()));
        facts_within(&facts.collect::<Vec<_>>(), "", self.width)
    }
}

/// Escapes the cells first, so that their widths are the printed ones.
fn one_line(row: Vec<String>) -> Vec<String> {
    row.into_iter().map(|cell| escape::line(&cell).into_owned()).collect()
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(fitted) = self.fitted() else {
            let records: Vec<String> = self.rows.iter().map(|row| self.record(row)).collect();
            return f.write_str(&records.join("\n\n"));
        };
        let header: Vec<&str> = fitted.columns.iter().map(|column| self.header[*column].as_str()).collect();
        let mut table = Table::new();
        table.load_style(STYLE).set_header(header);
        table.add_rows(self.rows.iter().map(|row| self.cells(row, &fitted)));
        for column in table.column_iter_mut().skip(1) {
            // Beside the padding on the right there is one column between two cells.
            column.set_padding(((fitted.gap - 2) as u16, 1));
            if self.numbers {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [&str; 4] = ["customer", "job", "type", "problem"];

    fn texts(cells: [&str; 4], width: Option<usize>) -> String {
        let rows = vec![cells.map(str::to_owned).to_vec()];
        Grid { width, ..Grid::of_texts(&HEADER, rows) }.to_string()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(length).max().unwrap_or(0)
    }

    #[test]
    fn a_prose_column_wraps_on_a_terminal_and_not_in_a_pipe() {
        let prose = "it never works ".repeat(9);
        let cells = ["customer-7", "order-1", "mail", prose.trim_end()];
        let shown = texts(cells, Some(60));
        assert!(widest(&shown) <= 60 && shown.lines().count() > 3 && shown.contains("──"), "{shown}");
        let piped = texts(cells, None);
        assert!(piped.lines().count() == 3 && piped.contains(prose.trim_end()), "{piped}");
    }

    #[test]
    fn a_table_that_is_too_wide_becomes_records_with_complete_names() {
        let (customer, job) = ("c".repeat(40), "e555bde0".repeat(5));
        for width in [20, 30, 50, 60, 80] {
            let shown =
                texts([&customer, &job, "mail", "it never works, however often it is tried"], Some(width));
            assert!(shown.contains(&customer) && shown.contains(&job), "{shown}");
            assert!(!shown.contains('…') && !shown.contains('─'), "{shown}");
        }
        let shown = texts(["a", "b", "mail", "it never works"], Some(26));
        let expected = "customer  a\njob       b\ntype      mail\nproblem   it never works";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_table_that_is_too_wide_gets_narrower_gaps_and_then_drops_optional_columns() {
        let group = "0192a4f8-7c1e-7b3a-9d52-3f6e8c0b1a27";
        let rows = vec![[group, "1,000", "250", "1,000 of 2,000"].map(str::to_owned).to_vec()];
        let header = ["group", "backlog", "waiting", "done"];
        let shown = |width| {
            let grid = Grid::of_texts(&header, rows.clone()).optional(&["waiting", "backlog"]);
            Grid { width: Some(width), ..grid }.to_string()
        };
        let headings = |width| {
            let shown = shown(width);
            assert!(shown.contains('─') && shown.contains(group) && widest(&shown) <= width, "{shown}");
            shown.lines().next().unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        for width in [75, 74, 72] {
            assert_eq!(headings(width), header);
        }
        assert_eq!(headings(71), ["group", "backlog", "done"]);
        assert_eq!(headings(62), ["group", "done"]);
        assert!(shown(50).starts_with("group    0192a4f8"), "{}", shown(50));
    }

    #[test]
    fn numbers_are_not_truncated_on_a_narrow_terminal() {
        let mut table = Grid { width: Some(24), ..Grid::of_numbers(&["customer", "done", "wait"]) };
        table.add_row(["customer-7", "1,000 of 1,000", "12.5 ms"].map(str::to_owned).to_vec());
        let shown = table.to_string();
        assert!(shown.contains("done      1,000 of 1,000") && widest(&shown) <= 24, "{shown}");
    }

    #[test]
    fn prose_wraps_between_words_and_keeps_its_indentation() {
        let text = "mail: rate unlimited\n  12 waiting for their turn, 3 running";
        assert_eq!(
            prose_within(text, Some(20)),
            "mail: rate unlimited\n  12 waiting for\n  their turn, 3\n  running"
        );
        assert_eq!(prose_within(text, None), text);
        let name = "x".repeat(30);
        assert_eq!(prose_within(&format!("of {name} now"), Some(10)), format!("of\n{name}\nnow"));
    }

    #[test]
    fn facts_are_indented_beside_their_labels() {
        let facts = [("rate", "the type lets 50 a second pass"), ("lane", "it is first")];
        let shown = facts_within(&facts, "  ", Some(24));
        assert_eq!(shown, "  rate  the type lets 50\n        a second pass\n  lane  it is first");
        let long = [("concurrency", "the group has 3 seats")];
        assert_eq!(facts_within(&long, "  ", Some(24)), "  concurrency  the group\n    has 3 seats");
    }
}
