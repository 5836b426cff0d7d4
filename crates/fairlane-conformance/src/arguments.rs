//! The arguments of this crate's programs, which all have the form `--name number`.

/// Reads `--name value` pairs; a wrong argument ends the program with the list of known ones.
pub fn read(known: &[(&str, u64)]) -> Vec<u64> {
    let mut values: Vec<u64> = known.iter().map(|(_, default)| *default).collect();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let at = known.iter().position(|(known, _)| *known == name);
        let value = arguments.next().and_then(|value| value.replace('_', "").parse().ok());
        match (at, value) {
            (Some(at), Some(value)) => values[at] = value,
            _ => {
                let usage: Vec<String> =
                    known.iter().map(|(name, default)| format!("[{name} {default}]")).collect();
                eprintln!(
                    "{name}: wrong argument or value; the arguments, with their defaults: {}",
                    usage.join(" ")
                );
                std::process::exit(2);
            }
        }
    }
    values
}
