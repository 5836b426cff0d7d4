//! The arguments of this crate's programs: `--name number`, and nothing else.

/// Reads `--name value` pairs; what is wrong ends the program with a word about what is known.
pub fn read(known: &[(&str, u64)]) -> Vec<u64> {
    let mut values: Vec<u64> = known.iter().map(|(_, default)| *default).collect();
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let at = known.iter().position(|(known, _)| *known == name);
        let value = words.next().and_then(|word| word.replace('_', "").parse().ok());
        match (at, value) {
            (Some(at), Some(value)) => values[at] = value,
            _ => {
                let usage: Vec<String> =
                    known.iter().map(|(name, default)| format!("[{name} {default}]")).collect();
                eprintln!("{name}: known are, with their defaults: {}", usage.join(" "));
                std::process::exit(2);
            }
        }
    }
    values
}
