//! Takes over the terminal for a live view, and restores it.

use std::io::{IsTerminal, Read, Write};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::sync::mpsc;

use super::frame::{Frame, Size};

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
/// Clears the rest of a line, and everything below the last line.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// The size that is assumed if the terminal does not report one.
const DEFAULT_SIZE: Size = Size { width: 80, height: 24 };

/// A terminal that shows the live view.
pub struct Screen {
    before: Option<Termios>,
    keys: mpsc::Receiver<u8>,
    colours: bool,
}

impl Screen {
    /// Takes over the terminal.
    pub fn enter() -> std::io::Result<Self> {
        let before = quiet_keys()?;
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let screen = Self { before, keys: keys(), colours };
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(ENTER.as_bytes())?;
        stdout.flush()?;
        Ok(screen)
    }

    /// Draws a frame over the previous one, line by line, to avoid flicker.
    pub fn draw(&mut self, frame: &Frame) -> std::io::Result<()> {
        let size = terminal_size::terminal_size_of(std::io::stdout())
            .map_or(DEFAULT_SIZE, |(width, height)| Size { width: width.0.into(), height: height.0.into() });
        let text = frame.text(size, self.colours);
        let lines: Vec<&str> = text.lines().collect();
        let drawn = lines.join(&format!("{CLEAR_LINE}\r\n"));
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(format!("{HOME}{drawn}{CLEAR_LINE}{CLEAR_BELOW}").as_bytes())?;
        stdout.flush()
    }

    /// The next byte from the keyboard; never completes without one.
    pub async fn key(&mut self) -> u8 {
        match self.keys.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut stdout = std::io::stdout().lock();
        // If this fails, the terminal is gone.
        let _ = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Delivers keys immediately and without echo; Ctrl-C stays a signal.
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

/// Reads keys in a separate thread, because a read cannot be cancelled; it ends with the program.
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
