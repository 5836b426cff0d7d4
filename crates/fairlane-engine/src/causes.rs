//! An error with its causes.

use std::error::Error;
use std::io;

/// An error and its causes in one line; a cause with the same text as its error is omitted.
///
/// ```
/// let inner = std::io::Error::other("no route");
/// assert_eq!(fairlane_engine::causes(&std::io::Error::other(inner)), "no route");
/// ```
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    for error in chain(error) {
        let text = error.to_string();
        if words.last() != Some(&text) {
            words.push(text);
        }
    }
    words.join(": ")
}

/// The error, then its cause, then the cause of that. For an `io::Error`, its inner error comes
/// next, which `source` skips.
pub(crate) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let made_of = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        made_of.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
    })
}
