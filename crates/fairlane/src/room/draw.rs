//! The draw of a pre-queue.
//!
//! Before the first user joins, the operator publishes the SHA-256 of a random seed. A user's
//! ticket follows from the seed and the user's id, and tickets order the users. When the room
//! opens, the seed and the list of tickets are published, so that anyone can recompute every
//! ticket. So the operator cannot choose the order after users are known. The draw does not prove
//! that the operator, who knows the seed, invented no users.

use std::fmt;
use std::io::BufRead;

use fairlane_core::UserId;
use ring::{digest, hmac, rand};

use super::pass::hex;
use crate::error::Error;

/// Bits of a ticket: a sorted set of Redis stores them exactly.
const TICKET_BITS: u32 = 52;

/// The secret from which tickets follow.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(String);

impl Seed {
    /// A new random seed.
    pub fn random() -> Result<Self, Error> {
        let bytes: [u8; 32] = random_bytes()?;
        Ok(Self(hex(&bytes)))
    }

    /// The SHA-256 of the seed's text, in hexadecimal digits.
    pub fn commitment(&self) -> String {
        hex(digest::digest(&digest::SHA256, self.0.as_bytes()).as_ref())
    }

    /// The first 52 bits of HMAC-SHA256 with the seed's text as the key and the user's id as the
    /// message.
    pub fn ticket(&self, user: &UserId) -> u64 {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        let tag = hmac::sign(&key, user.unescaped().as_bytes());
        let first = tag.as_ref().first_chunk::<8>().expect("a tag has 32 bytes");
        u64::from_be_bytes(*first) >> (u64::BITS - TICKET_BITS)
    }
}

impl From<&str> for Seed {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// Random bytes of the operating system.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    rand::SecureRandom::fill(&rand::SystemRandom::new(), &mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(bytes)
}

/// A line of the list of tickets: class, ticket and user, separated by tabs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketLine {
    /// The priority class.
    pub class: u32,
    /// The ticket.
    pub ticket: u64,
    /// The user.
    pub user: UserId,
}

impl fmt::Display for TicketLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t{}", self.class, self.ticket, self.user)
    }
}

impl std::str::FromStr for TicketLine {
    type Err = DrawError;

    fn from_str(line: &str) -> Result<Self, DrawError> {
        let malformed = || DrawError::Malformed(line.to_owned());
        let mut parts = line.splitn(3, '\t');
        let mut next = || parts.next().ok_or_else(malformed);
        let class = next()?.parse().map_err(|_| malformed())?;
        let ticket = next()?.parse().map_err(|_| malformed())?;
        let user = UserId::new(next()?).map_err(|_| malformed())?;
        Ok(Self { class, ticket, user })
    }
}

/// A digest and count of the list of tickets, built line by line.
#[derive(Clone)]
pub struct DrawnList {
    /// The number of tickets.
    pub tickets: u64,
    context: digest::Context,
}

impl fmt::Debug for DrawnList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrawnList").field("tickets", &self.tickets).finish_non_exhaustive()
    }
}

impl Default for DrawnList {
    fn default() -> Self {
        Self { tickets: 0, context: digest::Context::new(&digest::SHA256) }
    }
}

impl DrawnList {
    pub(super) fn add(&mut self, line: &TicketLine) {
        self.tickets += 1;
        self.context.update(format!("{line}\n").as_bytes());
    }

    /// The SHA-256 of the lines, each with a line break, in hexadecimal digits.
    pub fn digest(&self) -> String {
        hex(self.context.clone().finish().as_ref())
    }
}

/// Why a draw is not what was published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// The seed is not the one that was committed to.
    #[error("the SHA-256 of the seed is {found}, not {published} as published before the draw")]
    OtherSeed {
        /// The hash of the seed.
        found: String,
        /// The commitment.
        published: String,
    },
    /// A line does not have the form of a ticket.
    #[error("{0:?} is not a line with class, ticket and user")]
    Malformed(String),
    /// A ticket does not follow from the seed.
    #[error("line {line}: the ticket of {user} is {found}, not {expected} as the seed gives")]
    OtherTicket {
        /// The number of the line, from 1.
        line: u64,
        /// The user.
        user: UserId,
        /// The ticket in the list.
        found: u64,
        /// The ticket that follows from the seed.
        expected: u64,
    },
    /// A line is out of order.
    #[error("line {0} is out of order")]
    OutOfOrder(u64),
    /// The list is not the one whose digest was published.
    #[error("the digest of the list is {found}, not {published} as published at opening")]
    OtherList {
        /// The digest of the list.
        found: String,
        /// The published digest.
        published: String,
    },
    /// The list cannot be read.
    #[error("the list of tickets cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
}

/// A draw that matches what was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedDraw {
    /// The number of tickets.
    pub tickets: u64,
    /// The place of the user in the order of the user's class, from 1; `None` if the user is not in
    /// the list.
    pub place: Option<u64>,
}

/// Verifies a draw: the seed is the one that was committed to, every ticket follows from it, the list
/// is in order, and its digest is the one that was published at opening.
pub fn verify_draw(
    list: impl BufRead,
    seed: &Seed,
    commitment: &str,
    digest: &str,
    user: Option<&UserId>,
) -> Result<VerifiedDraw, DrawError> {
    if seed.commitment() != commitment {
        return Err(DrawError::OtherSeed { found: seed.commitment(), published: commitment.to_owned() });
    }
    let (mut drawn, mut place, mut in_class) = (DrawnList::default(), None, 0);
    let mut last: Option<(u32, u64)> = None;
    for line in list.lines() {
        let line: TicketLine = line?.parse()?;
        drawn.add(&line);
        let expected = seed.ticket(&line.user);
        if line.ticket != expected {
            let (line, user, found) = (drawn.tickets, line.user, line.ticket);
            return Err(DrawError::OtherTicket { line, user, found, expected });
        }
        let order = (line.class, line.ticket);
        if last.is_some_and(|last| order < last) {
            return Err(DrawError::OutOfOrder(drawn.tickets));
        }
        in_class = if last.is_some_and(|(class, _)| class == line.class) { in_class + 1 } else { 1 };
        last = Some(order);
        if user == Some(&line.user) {
            place = Some(in_class);
        }
    }
    if drawn.digest() != digest {
        return Err(DrawError::OtherList { found: drawn.digest(), published: digest.to_owned() });
    }
    Ok(VerifiedDraw { tickets: drawn.tickets, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(seed: &Seed, users: &[&str]) -> Vec<TicketLine> {
        let line = |user: &&str| {
            let user = UserId::new(user).expect("a valid user");
            TicketLine { class: 0, ticket: seed.ticket(&user), user }
        };
        let mut lines: Vec<_> = users.iter().map(line).collect();
        lines.sort_by_key(|line| line.ticket);
        lines
    }

    fn text(lines: &[TicketLine]) -> (String, String) {
        let mut drawn = DrawnList::default();
        let text = lines.iter().map(|line| {
            drawn.add(line);
            format!("{line}\n")
        });
        (text.collect(), drawn.digest())
    }

    #[test]
    fn ticket_is_the_one_that_other_programs_compute() {
        // From `printf user | openssl dgst -sha256 -hmac seed`.
        let ticket = Seed::from("seed").ticket(&UserId::new("user").unwrap());
        assert_eq!(format!("{ticket:013x}"), "809660abaa293");
        assert!(ticket < 1 << TICKET_BITS);
    }

    #[test]
    fn published_draw_is_verified_and_shows_a_users_place() {
        let seed = Seed::random().unwrap();
        let lines = list(&seed, &["ada", "bob", "c:d", "이름"]);
        let (text, digest) = text(&lines);
        for (index, line) in lines.iter().enumerate() {
            let found = verify_draw(text.as_bytes(), &seed, &seed.commitment(), &digest, Some(&line.user));
            let expected = VerifiedDraw { tickets: 4, place: Some(index as u64 + 1) };
            assert_eq!(found.unwrap(), expected);
        }
    }

    #[test]
    fn every_change_of_a_draw_is_found() {
        let (seed, other) = (Seed::random().unwrap(), Seed::random().unwrap());
        let mut lines = list(&seed, &["ada", "bob", "cyd"]);
        let (sound, digest) = text(&lines);
        let verify = |list: &str, seed: &Seed, commitment: &Seed| {
            verify_draw(list.as_bytes(), seed, &commitment.commitment(), &digest, None).unwrap_err()
        };
        assert!(matches!(verify(&sound, &other, &seed), DrawError::OtherSeed { .. }));
        assert!(matches!(verify(&sound, &other, &other), DrawError::OtherTicket { line: 1, .. }));
        let (_, rest) = sound.split_once('\n').unwrap();
        assert!(matches!(verify(rest, &seed, &seed), DrawError::OtherList { .. }));
        assert!(matches!(verify("0\tx\tada\n", &seed, &seed), DrawError::Malformed(_)));
        lines.swap(0, 2);
        assert!(matches!(verify(&text(&lines).0, &seed, &seed), DrawError::OutOfOrder(2)));
        lines[0].ticket += 1;
        assert!(matches!(verify(&text(&lines).0, &seed, &seed), DrawError::OtherTicket { line: 1, .. }));
    }
}
