//! The configuration of a waiting page.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use url::Url;

use super::return_url;

/// The longest title, in characters.
const TITLE_CHARS_MAX: usize = 100;
/// The longest text, in characters.
const TEXT_CHARS_MAX: usize = 1000;
/// Most addresses to which visitors may be sent.
const TARGETS_MAX: usize = 32;
/// The least contrast of text, as the WCAG define it (level AA).
const CONTRAST_MIN: f64 = 4.5;

/// Why a page cannot be served as configured, or a visitor cannot be sent on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPage(String);

impl InvalidPage {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// The page of a waiting room.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingPage {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) targets: Vec<Url>,
    pub(super) opens_at: Option<SystemTime>,
    pub(super) light: PageColours,
    pub(super) dark: PageColours,
}

impl WaitingPage {
    /// A page. Visitors are sent to the first address, or to one that they ask for and that an
    /// address covers: the same origin, and its path or one below it.
    pub fn new(title: &str, text: &str, targets: &[String]) -> Result<Self, InvalidPage> {
        let targets: Vec<Url> =
            targets.iter().map(|text| return_url::parse(text)).collect::<Result<_, _>>()?;
        if targets.is_empty() || targets.len() > TARGETS_MAX {
            return Err(InvalidPage::new(format!(
                "targets must have 1 to {TARGETS_MAX} addresses such as \"https://shop.example/\""
            )));
        }
        let page = Self {
            title: plain("title", title, 1, TITLE_CHARS_MAX)?,
            text: plain("text", text, 0, TEXT_CHARS_MAX)?,
            targets,
            opens_at: None,
            light: PageColours::new("#f6f7f9", "#1c2430", "#1f5fd6")?,
            dark: PageColours::new("#12161c", "#e8ecf2", "#8ab4ff")?,
        };
        Ok(page)
    }

    /// Sets the opening time of the room, which visitors see until then.
    pub fn opening_at(self, opens_at: SystemTime) -> Self {
        Self { opens_at: Some(opens_at), ..self }
    }

    /// Sets the colours, for browsers that prefer light pages and for those that prefer dark ones.
    pub fn coloured(self, light: Option<PageColours>, dark: Option<PageColours>) -> Self {
        Self { light: light.unwrap_or(self.light), dark: dark.unwrap_or(self.dark), ..self }
    }
}

fn plain(what: &str, text: &str, least: usize, most: usize) -> Result<String, InvalidPage> {
    let text = text.trim();
    let count = text.chars().count();
    if count < least || count > most {
        return Err(InvalidPage::new(format!(
            "{what} must have {least} to {most} characters; it has {count}"
        )));
    }
    if text.chars().any(|char| char.is_control() && char != '\n') {
        return Err(InvalidPage::new(format!("{what} has control characters; remove them")));
    }
    Ok(text.to_owned())
}

/// The colours of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageColours {
    pub(super) background: Colour,
    pub(super) foreground: Colour,
    pub(super) accent: Colour,
}

impl PageColours {
    /// Colours such as `#1f5fd6`: of the background, the text, and the accents. Text must be
    /// readable on the background.
    pub fn new(background: &str, foreground: &str, accent: &str) -> Result<Self, InvalidPage> {
        let (background, foreground, accent): (Colour, Colour, Colour) =
            (background.parse()?, foreground.parse()?, accent.parse()?);
        for (what, colour) in [("foreground", foreground), ("accent", accent)] {
            let contrast = colour.contrast(background);
            if contrast < CONTRAST_MIN {
                return Err(InvalidPage::new(format!(
                    "{what} {colour} on background {background} has a contrast of {contrast:.1}, which many people \
                     cannot read; choose colours with at least {CONTRAST_MIN}"
                )));
            }
        }
        Ok(Self { background, foreground, accent })
    }
}

/// A colour: red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour([u8; 3]);

impl Colour {
    /// The contrast to another colour, from 1 to 21, as the WCAG define it.
    fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance() + 0.05, other.luminance() + 0.05);
        (one / two).max(two / one)
    }

    fn luminance(self) -> f64 {
        let linear = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }
}

impl FromStr for Colour {
    type Err = InvalidPage;

    fn from_str(text: &str) -> Result<Self, InvalidPage> {
        let invalid = || InvalidPage::new(format!("{text:?} is not a colour such as \"#1f5fd6\""));
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6).ok_or_else(invalid)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| invalid());
        Ok(Self([part(0)?, part(2)?, part(4)?]))
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_that_of_the_wcag() {
        let contrast = |one: &str, two: &str| one.parse::<Colour>().unwrap().contrast(two.parse().unwrap());
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 0.001);
        assert!((contrast("#777777", "#ffffff") - 4.48).abs() < 0.01);
        assert!((contrast("#123456", "#123456") - 1.0).abs() < 0.001);
    }

    #[test]
    fn invalid_pages_say_what_to_change() {
        let shop = ["https://shop.example/".to_owned()];
        let error = |title: &str, text: &str, targets: &[String]| {
            WaitingPage::new(title, text, targets).unwrap_err().to_string()
        };
        assert!(error("", "", &shop).contains("title must have 1 to 100"));
        assert!(error("a\u{7}", "", &shop).contains("control characters"));
        assert!(error("a", &"b".repeat(1001), &shop).contains("it has 1001"));
        assert!(error("a", "", &[]).contains("https://shop.example/"));
        assert!(error("a", "", &["ftp://shop.example/".to_owned()]).contains("is not an address"));
        for colour in ["red", "#fff", "#12345g", "#1234567", "#+12345", "1f5fd6"] {
            let invalid = PageColours::new("#ffffff", "#000000", colour).unwrap_err();
            assert!(invalid.to_string().contains("#1f5fd6"), "{colour}: {invalid}");
        }
        let pale = PageColours::new("#ffffff", "#cccccc", "#000000").unwrap_err().to_string();
        assert!(pale.contains("contrast of 1.6") && pale.contains("at least 4.5"), "{pale}");
    }
}
