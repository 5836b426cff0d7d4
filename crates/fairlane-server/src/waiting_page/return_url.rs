//! Where visitors are sent when it is their turn: configured addresses only.

use url::Url;

use super::brand::{InvalidPage, WaitingPage};

/// The parameter that carries the pass.
const PASS: &str = "fairlane_pass";
/// The longest return address, in bytes.
const RETURN_BYTES_MAX: usize = 2048;

impl WaitingPage {
    /// The address to which a visitor is sent: the one it asks for, if a configured address covers
    /// it, or the first configured one.
    pub(super) fn target(&self, requested: Option<&str>) -> Result<Url, InvalidPage> {
        let Some(requested) = requested else { return Ok(self.targets[0].clone()) };
        let refused = || InvalidPage::new("the return address is not one of the allowed addresses");
        if requested.len() > RETURN_BYTES_MAX {
            return Err(InvalidPage::new(format!(
                "the return address has more than {RETURN_BYTES_MAX} bytes"
            )));
        }
        let url = parse(requested).map_err(|_| refused())?;
        self.targets.iter().any(|allowed| covers(allowed, &url)).then_some(url).ok_or_else(refused)
    }
}

/// An absolute address without a user, as a browser would read it.
pub(super) fn parse(text: &str) -> Result<Url, InvalidPage> {
    let invalid = |what: &str| InvalidPage::new(format!("{text:?} {what}"));
    // The parser ignores these characters, so the text would differ from the parsed address.
    if text.chars().any(|char| char.is_control() || char.is_whitespace() || char == '\\') {
        return Err(invalid("has characters that an address cannot have"));
    }
    let url = Url::parse(text).map_err(|_| invalid("is not an address such as https://shop.example/"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid("is not an address such as https://shop.example/"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("has a user; addresses have none"));
    }
    Ok(url)
}

/// Whether an allowed address covers another one: the same origin, and its path or one below it.
fn covers(allowed: &Url, url: &Url) -> bool {
    let below = url.path().strip_prefix(allowed.path());
    let is_below = |rest: &str| rest.is_empty() || allowed.path().ends_with('/') || rest.starts_with('/');
    allowed.origin() == url.origin()
        && below.is_some_and(is_below)
        && !url.path().contains("%2f")
        && !url.path().contains("%2F")
}

/// The address with this pass, which replaces a pass that it may contain.
pub(super) fn with_pass(mut url: Url, pass: &str) -> Url {
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| name != PASS)
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(PASS, pass);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> WaitingPage {
        let targets = ["https://shop.example/tickets", "http://127.0.0.1:3000/"].map(str::to_owned);
        WaitingPage::new("Concert", "", &targets).unwrap()
    }

    #[test]
    fn visitors_are_sent_to_configured_addresses_only() {
        let page = page();
        assert_eq!(page.target(None).unwrap().as_str(), "https://shop.example/tickets");
        for allowed in [
            "https://shop.example/tickets",
            "https://shop.example/tickets?seat=3#plan",
            "https://shop.example/tickets/12",
            "https://shop.example:443/tickets/",
            "http://127.0.0.1:3000/anything/below",
        ] {
            assert!(page.target(Some(allowed)).is_ok(), "{allowed}");
        }
        for refused in [
            "",
            "/tickets",
            "//evil.example/tickets",
            "https://evil.example/tickets",
            "https://shop.example.evil.example/tickets",
            "https://shop.example@evil.example/tickets",
            "https://user:word@shop.example/tickets",
            "https://shop.example/ticketsale",
            "https://shop.example/tickets/../admin",
            "https://shop.example/tickets/%2e%2e/admin",
            "https://shop.example/tickets/..%2fadmin",
            "http://shop.example/tickets",
            "https://shop.example:8443/tickets",
            "https:\\\\shop.example\\tickets",
            "https://evil.example\\@shop.example/tickets",
            "https://shop.example/tickets\r\nSet-Cookie: a=b",
            "ht\ttps://shop.example/tickets",
            "javascript:alert(1)//https://shop.example/tickets",
            "data:text/html,hello",
        ] {
            assert!(page.target(Some(refused)).is_err(), "{refused:?}");
        }
        let long = format!("https://shop.example/tickets/{}", "a".repeat(RETURN_BYTES_MAX));
        assert!(page.target(Some(&long)).is_err());
    }

    #[test]
    fn pass_replaces_an_earlier_one() {
        let url =
            parse("https://shop.example/tickets?fairlane_pass=old&seat=3&fairlane_pass=x#plan").unwrap();
        assert_eq!(
            with_pass(url, "new").as_str(),
            "https://shop.example/tickets?seat=3&fairlane_pass=new#plan"
        );
    }
}
