//! Takes over the terminal for a live view, and restores it.

use std::io::{IsTerminal, Stdout, stdin, stdout};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc;

use super::frame::Frame;

/// A terminal that shows the live view.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    events: mpsc::Receiver<Event>,
    colours: bool,
}

impl Screen {
    /// Takes over the terminal.
    pub fn enter() -> std::io::Result<Self> {
        let has_keys = stdin().is_terminal();
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        // From here on, dropping it restores the terminal.
        let screen = Self { terminal, events: if has_keys { events() } else { mpsc::channel(1).1 }, colours };
        if has_keys {
            enable_raw_mode()?;
        }
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws a frame; only what has changed is sent, which keeps it quick over ssh.
    pub fn draw(&mut self, frame: &Frame) -> std::io::Result<()> {
        let colours = self.colours;
        self.terminal.draw(|drawn| frame.draw(drawn.buffer_mut(), colours)).map(drop)
    }

    /// The next key, or `None` when the size of the terminal has changed; never completes without
    /// either.
    pub async fn key(&mut self) -> Option<KeyEvent> {
        loop {
            match self.events.recv().await {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => return Some(key),
                Some(Event::Resize(..)) => return None,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If this fails, the terminal is gone.
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Reads events in a separate thread, because a read cannot be cancelled; it ends with the program.
fn events() -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    events
}
