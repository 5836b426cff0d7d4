//! Precedence, sources of values, and error messages.

use super::*;

const TEXT: &str = "engine = \"redis://:hunter2@host:6379\"\n[server]\nlisten = \"127.0.0.1:9000\"\nbody_bytes_max = \"1MiB\"\n\
[queue]\nmax_retry_count = 5\ncompleted_retention_ms = \"2h\"\n[worker]\nlease_ms = 20000\nretry = { base_ms = 5 }\n\
[types.mail]\nhttp = \"https://me:hunter2@mailer.example/hunter2\"\nheaders = { authorization = \"hunter2\" }\nconcurrency = 3\n";

fn read(text: &str, variables: &[(&str, &str)], arguments: ConfigArguments) -> Result<Config, String> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::merged(Some(FILE.into()), text, variables, arguments.overrides())
}

fn row<'a>(config: &'a Config, key: &str) -> (&'a str, &'a str) {
    let row = config.rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no row {key}"));
    (&row.value, &row.origin)
}

#[test]
fn options_override_variables_and_variables_override_the_file() {
    let variables = [("FAIRLANE_SERVER_LISTEN", "127.0.0.1:9001"), ("FAIRLANE_WORKER_RETRY_CAP_MS", "9s")];
    let arguments = ConfigArguments { listen: Some("127.0.0.1:9002".into()), ..Default::default() };
    let config = read(TEXT, &variables, arguments).unwrap();
    assert_eq!(config.server.listen.port(), 9002);
    assert_eq!(row(&config, "server.listen"), ("127.0.0.1:9002", "--listen"));
    let config = read(TEXT, &variables, ConfigArguments::default()).unwrap();
    assert_eq!(row(&config, "server.listen"), ("127.0.0.1:9001", "FAIRLANE_SERVER_LISTEN"));
    assert_eq!(row(&config, "worker.retry.cap_ms"), ("9000", "FAIRLANE_WORKER_RETRY_CAP_MS"));
    assert_eq!(row(&config, "worker.retry.base_ms"), ("5", "fairlane.toml:10"));
    assert_eq!(row(&config, "server.body_bytes_max"), ("1MiB", "fairlane.toml:4"));
    assert_eq!(row(&config, "server.requests_max"), ("1024", "default"));
    assert_eq!(row(&config, "queue.completed_retention_ms"), ("7200000", "fairlane.toml:7"));
    assert_eq!(row(&config, "queue.alpha"), ("–", "stored in the queue"));
    assert_eq!(row(&config, "types.mail.concurrency"), ("3", "fairlane.toml:14"));
}

#[test]
fn rows_contain_no_secrets() {
    let config = read(TEXT, &[], ConfigArguments::default()).unwrap();
    assert_eq!(row(&config, "engine"), ("redis://host:6379", "fairlane.toml:1"));
    assert_eq!(row(&config, "types.mail.http").0, "https://mailer.example/…");
    assert_eq!(row(&config, "types.mail.headers").0, "…");
    assert!(!format!("{:?}", config.rows).contains("hunter2"));
}

#[test]
fn the_database_is_named_with_its_source_and_without_its_secrets() {
    let url = "postgres://app:hunter2@db:5432/shop?password=hunter2";
    let text = format!("[server]\ndatabase = \"{url}\"\n");
    let config = read(&text, &[], ConfigArguments::default()).unwrap();
    assert_eq!(config.server.database.as_ref().unwrap().0, url);
    assert_eq!(row(&config, "server.database"), ("postgres://db:5432/shop", "fairlane.toml:2"));
    assert!(!format!("{config:?}").contains("hunter2"));
    let variable = [("FAIRLANE_DATABASE", "postgres://app:${x}@db/shop")];
    let config = read(&text, &variable, ConfigArguments::default()).unwrap();
    assert_eq!(config.server.database.as_ref().unwrap().0, variable[0].1);
    assert_eq!(row(&config, "server.database").1, "FAIRLANE_DATABASE");
    let arguments = ConfigArguments { database: Some("mysql://hunter2".into()), ..Default::default() };
    let problem = read("", &[], arguments).unwrap_err();
    assert_eq!(problem, "--database must be an address such as postgres://user@host/database");
}

#[test]
fn configured_queue_settings_replace_the_stored_ones() {
    let config = read(TEXT, &[], ConfigArguments::default()).unwrap();
    let stored = Settings { max_loss_count: 77, ..Settings::default() };
    let changed = config.queue_over(&stored, &[]).unwrap();
    assert_eq!((changed.max_retry_count, changed.max_loss_count), (5, 77));
    assert_eq!(config.queue_over(&changed, &[]), None, "nothing is left to change");
    let keys: Vec<_> = queue_settings(&stored).into_iter().map(|(key, _)| key).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    assert_eq!(config.queue_over(&stored, &keys), None, "every printed setting can be parsed again");
    let others: Vec<_> = keys.into_iter().filter(|key| *key != "max_retry_count").collect();
    let kept = config.queue_over(&stored, &others).unwrap();
    assert_eq!(kept, Settings { max_retry_count: 5, ..stored });
}

#[test]
fn an_error_names_its_source_and_suggests_a_key() {
    for (text, words) in [
        ("[server]\nlistn = \"x\"", "fairlane.toml, line 2: [server]: unknown field `listn`"),
        ("[server]\nlistn = \"x\"", "did you mean `listen`?"),
        ("[server]\nlisten = \"x\"", "line 2: listen must be an address and a port"),
        ("[server]\nhead_timeout = 10", "line 2: head_timeout must be a time such as"),
        ("[server]\nkey_rate = \"fast\"", "line 2: key_rate must be a rate such as"),
        ("[queue]\nmax_retry_count = 99999", "line 2: max_retry_count must be between 0 and 10000"),
        ("[queue]\nbase_backoff_ms = 0", "line 2: base_backoff_ms must be between"),
        ("[queue]\ndiscipline = \"fair\"", "line 2: discipline must be share or classic"),
        ("[worker]\nretry = { base = 1 }", "line 2: [worker.retry]: unknown field `base`"),
        ("[worker]\nretry = { base_ms = 2, cap_ms = 1 }", "line 2: retry.base_ms is 2 and must not be above"),
        ("[sever]\n", "did you mean `server`?"),
    ] {
        let problem = read(text, &[], ConfigArguments::default()).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
    for (variable, words) in [
        (("FAIRLANE_SERVER_LISTEN", "x"), "FAIRLANE_SERVER_LISTEN must be an address and a port"),
        (("FAIRLANE_SERVER_LISTN", "x"), "did you mean `FAIRLANE_SERVER_LISTEN`?"),
        (("FAIRLANE_SERVR_LISTEN", "x"), "did you mean `FAIRLANE_SERVER_LISTEN`?"),
        (("FAIRLANE_LISTEN", "x"), "did you mean `FAIRLANE_SERVER_LISTEN`?"),
        (("FAIRLANE_ENGIN", "x"), "did you mean `FAIRLANE_ENGINE`?"),
        (("FAIRLANE_PORT", "8080"), "`FAIRLANE_PORT` is unknown. docs/configuration.md"),
        (("FAIRLANE_WORKER_LEASE_MS", "5"), "FAIRLANE_WORKER_LEASE_MS is 5; it must be from"),
    ] {
        let problem = read("", &[variable], ConfigArguments::default()).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
    let arguments = ConfigArguments { listen: Some("8080".into()), ..Default::default() };
    assert!(read("", &[], arguments).unwrap_err().starts_with("--listen must be an address"));
}

#[test]
fn limits_need_no_target_and_run_nothing() {
    let text = "[types.mail]\nrate = \"5/s\"\n[groups.\"customer 7\"]\nweight = 3\nrate = \"none\"\nconcurrency = 2\n";
    let config = read(text, &[], ConfigArguments::default()).unwrap();
    assert!(config.types[0].rate.is_some() && config.types[0].target.is_none());
    assert_eq!(config.type_ids(), []);
    let (group, patch) = &config.groups[0];
    assert_eq!(
        (group.to_string().as_str(), patch.weight.map(|weight| weight.get())),
        ("customer 7", Some(3))
    );
    assert_eq!((patch.rate, patch.concurrency, patch.paused), (Some(None), Some(Some(2)), None));
    assert_eq!(row(&config, "groups.customer 7.weight"), ("3", "fairlane.toml:4"));
}

#[test]
fn a_server_listens_on_localhost_or_on_all_addresses_by_a_short_name() {
    for (text, address) in [("localhost:9000", "127.0.0.1:9000"), (":9000", "0.0.0.0:9000")] {
        let arguments = ConfigArguments { listen: Some(text.into()), ..Default::default() };
        assert_eq!(read("", &[], arguments).unwrap().server.listen.to_string(), address);
    }
}

#[test]
fn the_address_of_the_queue_has_two_names_of_which_one_counts_more() {
    let engine = |variables: &[(&str, &str)]| read("", variables, ConfigArguments::default()).unwrap().engine;
    let (alias, name) = (("FAIRLANE_URL", "http://a:1"), ("FAIRLANE_ENGINE", "http://b:1"));
    assert_eq!(engine(&[alias]).as_deref(), Some("http://a:1"));
    assert_eq!(engine(&[alias, name]), engine(&[name, alias]));
    assert_eq!(engine(&[name, alias]).as_deref(), Some("http://b:1"));
}

#[test]
fn variables_outside_the_configuration_are_ignored() {
    let others = [
        ("FAIRLANE_KEY", "x"),
        ("FAIRLANE_GROUP", "x"),
        ("FAIRLANE_FUZZ_ROUNDS", "9"),
        ("FAIRLANE_SERVER_PORT", "tcp://10.0.0.1:80"),
        ("FAIRLANE_SERVER_SERVICE_HOST", "10.0.0.1"),
        ("FAIRLANE_SERVICE_PORT_HTTP", "8080"),
        ("FAIRLANE_PORT", "tcp://10.0.0.1:80"),
        ("FAIRLANE_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("FAIRLANE_MAIL_TOKEN", "hunter2"),
        ("FAIRLANE_SERVER_LISTEN", ""),
    ];
    // FAIRLANE_MAIL_TOKEN is allowed because the file uses it.
    read("# ${FAIRLANE_MAIL_TOKEN}", &others, ConfigArguments::default()).unwrap();
}
