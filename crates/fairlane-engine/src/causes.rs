//! An error with what caused it.

use std::error::Error;
use std::io;

/// An error and what caused it, in one line; what repeats its cause is said once.
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

/// An error, then what caused it, then what caused that. An `io::Error` is asked what it was made of, which its source
/// passes over.
pub(crate) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let made_of = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        made_of.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
    })
}
