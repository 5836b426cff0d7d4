//! A minimal reader of Rust source, which finds functions and modules without a parser.
//!
//! Comments, strings and characters are blanked first, so that only code remains, with every line
//! where it was. Left out: macros are read as plain tokens, and braces inside the types of a
//! signature are read as a body.

use super::tree::Tree;

/// Conformance cases are functions of a chapter, run over every engine without a test attribute of
/// their own.
const CHAPTERS: &str = "crates/fairlane-conformance/src/chapters/";

/// A function with the lines it spans, counted from one.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub first_line: usize,
    pub last_line: usize,
}

impl Function {
    /// How many lines it spans, signature and closing brace included.
    pub fn lines(&self) -> usize {
        self.last_line - self.first_line + 1
    }
}

/// A test, or a case of a conformance chapter, with its doc comment on one line.
#[derive(Debug)]
pub struct TestFunction {
    pub name: String,
    pub path: String,
    pub line: usize,
    pub documentation: String,
}

/// A word or a single other character of code.
#[derive(Debug, PartialEq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// Every function of a file.
pub fn functions(text: &str) -> Vec<Function> {
    let tokens = tokens(&blank(text));
    let named = |pair: &[Token]| pair[0].text == "fn" && is_word(&pair[1].text);
    let starts = (0..tokens.len().saturating_sub(1)).filter(|&at| named(&tokens[at..at + 2]));
    starts
        .map(|at| Function {
            name: tokens[at + 1].text.clone(),
            first_line: tokens[at].line,
            last_line: last_line(&tokens[at + 2..]).unwrap_or(tokens[at].line),
        })
        .collect()
}

/// Every test of the tree.
pub fn test_functions(tree: &Tree) -> Vec<TestFunction> {
    let mut tests = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let lines: Vec<&str> = text.lines().collect();
        for function in functions(text) {
            let head = head(&lines[..function.first_line - 1]);
            if path.starts_with(CHAPTERS) || head.iter().any(|line| is_test_attribute(line)) {
                tests.push(TestFunction {
                    name: function.name,
                    path: path.into(),
                    line: function.first_line,
                    documentation: documentation(head),
                });
            }
        }
    }
    tests
}

/// The tokens of blanked source.
pub fn tokens(blanked: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut joins = false;
    let mut line = 1;
    for character in blanked.chars() {
        let in_word = character.is_alphanumeric() || character == '_';
        match tokens.last_mut() {
            Some(word) if in_word && joins => word.text.push(character),
            _ if character.is_whitespace() => {}
            _ => tokens.push(Token { text: character.into(), line }),
        }
        joins = in_word;
        line += usize::from(character == '\n');
    }
    tokens
}

/// Source with the content of comments, strings and characters blanked; lines stay where they are.
pub fn blank(text: &str) -> String {
    let mut eraser =
        Eraser { characters: text.chars().collect(), at: 0, kept: String::with_capacity(text.len()) };
    while eraser.at < eraser.characters.len() {
        eraser.step();
    }
    eraser.kept
}

/// Whether a token is a word that can name something.
pub fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The line of the brace that closes the body, or of the semicolon of a function without one.
fn last_line(after_name: &[Token]) -> Option<usize> {
    let mut brackets = 0_usize;
    let mut braces = 0_usize;
    for token in after_name {
        match token.text.as_str() {
            "(" | "[" => brackets += 1,
            ")" | "]" => brackets = brackets.saturating_sub(1),
            "{" => braces += 1,
            "}" if braces <= 1 => return Some(token.line),
            "}" => braces -= 1,
            ";" if braces == 0 && brackets == 0 => return Some(token.line),
            _ => {}
        }
    }
    None
}

/// The comments and attributes right above an item.
fn head<'a>(before: &'a [&'a str]) -> &'a [&'a str] {
    let ends_other = |line: &&str| {
        let line = line.trim();
        line.is_empty() || (!line.starts_with("//") && line.ends_with(['{', '}', ';']))
    };
    let start = before.iter().rposition(ends_other).map_or(0, |at| at + 1);
    &before[start..]
}

fn is_test_attribute(line: &str) -> bool {
    let attribute = line.trim().strip_prefix("#[").unwrap_or_default();
    let name = attribute.split(['(', ']']).next().unwrap_or_default();
    name.rsplit("::").next() == Some("test")
}

fn documentation(head: &[&str]) -> String {
    let lines = head.iter().filter_map(|line| line.trim().strip_prefix("///"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Reads source and keeps only the code.
struct Eraser {
    characters: Vec<char>,
    at: usize,
    kept: String,
}

impl Eraser {
    fn step(&mut self) {
        match (self.characters[self.at], self.ahead(1)) {
            ('/', Some('/')) => self.line_comment(),
            ('/', Some('*')) => self.block_comment(),
            ('"', _) => self.quoted('"'),
            ('\'', _) if self.is_character() => self.quoted('\''),
            ('r' | 'b' | 'c', _) if self.raw_hashes().is_some() => self.raw_string(),
            _ => self.keep(),
        }
    }

    fn ahead(&self, distance: usize) -> Option<char> {
        self.characters.get(self.at + distance).copied()
    }

    fn keep(&mut self) {
        self.kept.push(self.characters[self.at]);
        self.at += 1;
    }

    fn erase(&mut self) {
        let Some(&character) = self.characters.get(self.at) else {
            return;
        };
        self.kept.push(if character == '\n' { '\n' } else { ' ' });
        self.at += 1;
    }

    fn line_comment(&mut self) {
        while self.ahead(0).is_some_and(|character| character != '\n') {
            self.erase();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(character) = self.ahead(0) {
            match (character, self.ahead(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.erase();
                    continue;
                }
            }
            self.erase();
            self.erase();
            if depth == 0 {
                return;
            }
        }
    }

    /// A string or character with escapes; its quotes are kept.
    fn quoted(&mut self, quote: char) {
        self.keep();
        while let Some(character) = self.ahead(0) {
            if character == quote {
                return self.keep();
            }
            if character == '\\' {
                self.erase();
            }
            self.erase();
        }
    }

    /// A quote begins a character, unless it begins a lifetime.
    fn is_character(&self) -> bool {
        self.ahead(1) == Some('\\') || self.ahead(2) == Some('\'')
    }

    /// How many hashes guard the raw string that begins here, if one does.
    fn raw_hashes(&self) -> Option<usize> {
        let before = self.at.checked_sub(1).map(|at| self.characters[at]);
        if before.is_some_and(|character| character.is_alphanumeric() || character == '_') {
            return None;
        }
        let prefix = 1 + usize::from(self.characters[self.at] != 'r');
        if self.ahead(prefix - 1) != Some('r') {
            return None;
        }
        let hashes =
            self.characters[self.at + prefix..].iter().take_while(|character| **character == '#').count();
        (self.ahead(prefix + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().expect("asked before");
        while self.characters[self.at] != '"' {
            self.erase();
        }
        self.keep();
        let closes = |eraser: &Self| {
            eraser.ahead(0) == Some('"') && (1..=hashes).all(|distance| eraser.ahead(distance) == Some('#'))
        };
        while self.at < self.characters.len() && !closes(self) {
            self.erase();
        }
        for _ in 0..=hashes {
            self.erase();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(text: &str) -> Vec<(String, usize, usize)> {
        let spans = functions(text).into_iter();
        spans.map(|function| (function.name, function.first_line, function.last_line)).collect()
    }

    #[test]
    fn a_function_spans_from_its_signature_to_its_closing_brace() {
        let text = "fn one() {\n    if true {\n    }\n}\n\nfn two() {}\n";
        assert_eq!(spans(text), [("one".into(), 1, 4), ("two".into(), 6, 6)]);
    }

    #[test]
    fn braces_in_strings_characters_and_comments_do_not_count() {
        let text = "fn one() {\n let a = \"}\\\"}\"; let b = '}'; let c = '\\''; // }\n /* } /* } */ } */\n let d = r#\"}\"}\"#; let e = br\"}\";\n}\n";
        assert_eq!(spans(text), [("one".into(), 1, 5)]);
    }

    #[test]
    fn a_lifetime_is_not_taken_for_a_character() {
        let text = "fn one<'a>(text: &'a str) -> &'a str {\n    text\n}\n";
        assert_eq!(spans(text), [("one".into(), 1, 3)]);
    }

    #[test]
    fn a_declaration_without_body_ends_at_its_semicolon() {
        let text = "fn one(\n    bytes: [u8; 3],\n) -> [u8; 3];\nfn two() {\n}\n";
        assert_eq!(spans(text), [("one".into(), 1, 3), ("two".into(), 4, 5)]);
    }

    #[test]
    fn a_function_pointer_is_no_function() {
        assert_eq!(spans("type Rule = fn(u8) -> u8;\nlet fn_count = 1;\n"), []);
    }

    #[test]
    fn a_raw_identifier_does_not_begin_a_string() {
        assert_eq!(blank("r#type + \"x\""), "r#type + \" \"");
    }

    #[test]
    fn blanking_keeps_every_line_where_it_was() {
        let text = "a /* x\ny */ b \"p\nq\" c\n// z\nd";
        assert_eq!(blank(text), "a     \n     b \" \n \" c\n    \nd");
    }

    #[test]
    fn a_test_is_known_by_its_attribute_and_carries_its_doc_comment() {
        let text = "/// Says\n/// much.\n#[test]\nfn claim() {}\n\n/// No test.\nfn other() {}\n\n#[tokio::test(start_paused = true)]\nasync fn second() {}\n";
        let tests = test_functions(&Tree::of(&[("crates/x/src/lib.rs", text)]));
        let found: Vec<_> =
            tests.iter().map(|test| (test.name.as_str(), test.documentation.as_str())).collect();
        assert_eq!(found, [("claim", "Says much."), ("second", "")]);
        assert_eq!((tests[0].path.as_str(), tests[0].line), ("crates/x/src/lib.rs", 4));
    }

    #[test]
    fn a_function_of_a_chapter_is_a_test() {
        let path = format!("{CHAPTERS}lease.rs");
        let tests = test_functions(&Tree::of(&[(&path, "pub async fn claim() {}\n")]));
        assert_eq!(tests[0].name, "claim");
    }
}
