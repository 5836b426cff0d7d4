//! `fairlane top` in a real terminal: keys are sent and the screen is read through tmux.

use std::process::Command;

use fairlane_testkit::wait::eventually;

use super::running::PROGRAM;
use super::served::Served;

/// A terminal of its own tmux server, which ends when dropped.
struct Terminal {
    socket: String,
    _folder: tempfile::TempDir,
}

impl Terminal {
    fn start(width: u32, height: u32, command: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("tmux").display().to_string();
        let terminal = Self { socket, _folder: folder };
        let size = [width.to_string(), height.to_string()];
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], command]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket]).args(words).output();
        let output = output.expect("tmux is installed: apt-get install tmux");
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    async fn until(&self, words: &str) -> String {
        eventually(async || {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(words) { Ok(screen) } else { Err(format!("{words:?} is not in: {screen}")) }
        })
        .await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[tokio::test]
async fn keys_sort_filter_pause_explain_and_quit_on_every_screen() {
    let served = Served::start();
    for (group, jobs) in [("acme", 5), ("globex", 3), ("initech", 1)] {
        for _ in 0..jobs {
            let job = format!(r#"{{"group": "{group}", "type": "mail", "payload": 1}}"#);
            assert_eq!(served.ask("POST", "/api/jobs", &job).unwrap().0, 201);
        }
    }
    let command = format!("{PROGRAM} top --engine {}; echo ended; sleep 60", served.address);
    for (width, height) in [(80, 24), (200, 60)] {
        let terminal = Terminal::start(width, height, &command);
        let screen = terminal.until("initech").await;
        let is_within = |screen: &str| screen.lines().all(|line| line.chars().count() <= width as usize);
        assert!(is_within(&screen) && screen.contains("s sort: backlog"), "{screen}");
        terminal.press("j");
        terminal.until("> acme").await;
        terminal.press("Down");
        terminal.until("> globex").await;
        terminal.press("p");
        terminal.until("globex is paused").await;
        terminal.press("w");
        terminal.until(": globex is paused").await;
        terminal.press("p");
        terminal.until("globex is resumed").await;
        terminal.press("/init");
        terminal.until("filter: init_").await;
        terminal.press("Enter");
        let screen = terminal.until("filter \"init\"").await;
        assert!(screen.contains("initech") && !screen.contains("acme "), "{screen}");
        terminal.tmux(&["resize-window", "-x", "60", "-y", "16"]);
        terminal.until("initech").await;
        terminal.press("q");
        terminal.until("ended").await;
    }
}
