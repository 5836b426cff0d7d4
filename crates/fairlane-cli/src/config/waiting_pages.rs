//! The tables `[waiting_pages.ROOM]`: public pages of waiting rooms.

use fairlane::parse_time;
use fairlane_server::{PageColours, WaitingPage};
use serde::Deserialize;

/// The keys of `[waiting_pages.ROOM]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitingPageTable {
    title: String,
    #[serde(default)]
    text: String,
    targets: Vec<String>,
    opens_at: Option<String>,
    light: Option<ColourTable>,
    dark: Option<ColourTable>,
}

/// The colours of a page.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { background = \"#ffffff\", foreground = \"#000000\", accent = \"#1f5fd6\" }"
)]
struct ColourTable {
    background: String,
    foreground: String,
    accent: String,
}

impl WaitingPageTable {
    /// Checks the table. Visitors are sent on with a pass, so there must be keys to sign it.
    pub fn checked(self, has_pass_keys: bool) -> Result<WaitingPage, String> {
        if !has_pass_keys {
            return Err("a page sends visitors on with a pass, which needs a key: fairlane room key create \
                        pass-keys.json, and pass_keys = \"pass-keys.json\" in [server]"
                .to_owned());
        }
        let page =
            WaitingPage::new(&self.title, &self.text, &self.targets).map_err(|error| error.to_string())?;
        let colours = |table: Option<ColourTable>| {
            let checked = table.map(|one| PageColours::new(&one.background, &one.foreground, &one.accent));
            checked.transpose().map_err(|error| error.to_string())
        };
        let page = page.coloured(colours(self.light)?, colours(self.dark)?);
        match self.opens_at {
            Some(text) => {
                let time = parse_time(&text).map_err(|error| format!("opens_at: {error}"))?;
                Ok(page.opening_at(time))
            }
            None => Ok(page),
        }
    }
}
