//! The terminal: taken for a live view, and given back as it was.

use std::io::{IsTerminal, Read, Write};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::sync::mpsc;

use super::frame::{Frame, Size};

/// Another screen than the shell's, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
/// What stands behind the end of a line, or below the last one.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// If nobody knows how large the terminal is.
const USUAL: Size = Size { width: 80, height: 24 };

/// A terminal that is in use.
pub struct Screen {
    before: Option<Termios>,
    keys: mpsc::Receiver<u8>,
    colours: bool,
}

impl Screen {
    /// Takes it.
    pub fn enter() -> std::io::Result<Self> {
        let before = quiet_keys()?;
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let screen = Self { before, keys: keys(), colours };
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(ENTER.as_bytes())?;
        stdout.flush()?;
        Ok(screen)
    }

    /// Shows a frame, line over line, so that nothing flickers.
    pub fn draw(&mut self, frame: &Frame) -> std::io::Result<()> {
        let size = terminal_size::terminal_size_of(std::io::stdout())
            .map_or(USUAL, |(width, height)| Size { width: width.0.into(), height: height.0.into() });
        let text = frame.text(size, self.colours);
        let lines: Vec<&str> = text.lines().collect();
        let drawn = lines.join(&format!("{CLEAR_LINE}\r\n"));
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(format!("{HOME}{drawn}{CLEAR_LINE}{CLEAR_BELOW}").as_bytes())?;
        stdout.flush()
    }

    /// Ends when somebody presses q; never without a keyboard.
    pub async fn quit(&mut self) {
        loop {
            match self.keys.recv().await {
                Some(b'q' | b'Q') => return,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut stdout = std::io::stdout().lock();
        // Who cannot give it back has lost it already.
        let _ = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Keys come at once and are not shown; Ctrl-C stays a signal.
fn quiet_keys() -> std::io::Result<Option<Termios>> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let before = termios::tcgetattr(rustix::stdio::stdin())?;
    let mut quiet = before.clone();
    quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &quiet)?;
    Ok(Some(before))
}

/// A thread of its own reads them, as a read cannot be stopped; it ends with the program.
fn keys() -> mpsc::Receiver<u8> {
    let (pressed, keys) = mpsc::channel(16);
    if std::io::stdin().is_terminal() {
        std::thread::spawn(move || {
            for key in std::io::stdin().lock().bytes().map_while(Result::ok) {
                if pressed.blocking_send(key).is_err() {
                    return;
                }
            }
        });
    }
    keys
}
