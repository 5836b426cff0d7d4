//! The sentences of a waiting page.

use fairlane_core::room::Eta;

use super::render::Screen;

/// A number with its thousands separated.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// A wait as a range.
pub(super) fn range(eta: Eta) -> String {
    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    let (unit_ms, unit) = if eta.most_ms > 2 * HOUR { (HOUR, "hour") } else { (MINUTE, "minute") };
    let (least, most) = (eta.least_ms / unit_ms, eta.most_ms.div_ceil(unit_ms).max(1));
    let units = |count: u64| if count == 1 { unit.to_owned() } else { format!("{unit}s") };
    match least {
        0 if most == 1 => format!("less than {} {unit}", if unit == "hour" { "an" } else { "a" }),
        0 => format!("up to {} {}", thousands(most), units(most)),
        _ if least == most => format!("about {} {}", thousands(most), units(most)),
        _ => format!("{} to {} {}", thousands(least), thousands(most), units(most)),
    }
}

/// The text that a screen reader announces.
pub(super) fn announcement(screen: &Screen) -> String {
    match screen {
        Screen::Waiting { paused: Some(_), position, .. } => {
            let position =
                position.map_or(String::new(), |at| format!(" Your position is {}.", thousands(at)));
            format!("Admission is paused. You keep your place.{position}")
        }
        Screen::Waiting { position: Some(at), eta, .. } => {
            let wait = eta.map_or(String::new(), |eta| format!(" Estimated wait: {}.", range(eta)));
            format!("Your position is {}.{wait}", thousands(*at))
        }
        Screen::Waiting { .. } => "The waiting room has not opened yet. You have a ticket.".to_owned(),
        Screen::Turn => "It is your turn.".to_owned(),
        Screen::Ended => "Your place has ended.".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_shown_as_ranges() {
        let range = |least_secs: u64, most_secs: u64| {
            range(Eta { least_ms: least_secs * 1000, most_ms: most_secs * 1000 })
        };
        assert_eq!(range(0, 0), "less than a minute");
        assert_eq!(range(20, 60), "less than a minute");
        assert_eq!(range(20, 170), "up to 3 minutes");
        assert_eq!(range(60, 60), "about 1 minute");
        assert_eq!(range(70, 100), "1 to 2 minutes");
        assert_eq!(range(600, 7200), "10 to 120 minutes");
        assert_eq!(range(3600, 7201), "1 to 3 hours");
        assert_eq!(range(36_000_000, 39_600_000), "10,000 to 11,000 hours");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
