//! Ready when a window is shown, when something is drawn in it, or when nothing changes any more.
//!
//! Detected by events of the X server: `MapNotify` and `PropertyNotify` of the core protocol, and
//! `DamageNotify` of the damage extension on the root window, which reports drawing in all others.

use std::os::fd::{AsFd, BorrowedFd};

use regex::bytes::Regex;
use x11rb::{
    connection::Connection,
    errors::ReplyError,
    protocol::{
        Event,
        damage::{ConnectionExt as _, ReportLevel},
        xproto::{
            AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, ImageFormat,
            Rectangle, Window as Id, WindowClass,
        },
    },
    rust_connection::RustConnection,
};

use super::{MOST, Ready, ReadyEvent, ReadyKind, Scene, expression};
use crate::{ProbeError, clock::monotonic_ns};

/// `window[=TITLE]`
pub struct Window;
/// `content`
pub struct Content;
/// `settled=MS`
pub struct Settled;

/// The condition.
#[derive(Debug)]
enum Wanted {
    Shown(Option<Regex>),
    Drawn,
    Quiet(u64),
}

fn number(value: &str) -> Result<u64, String> {
    match value.parse::<u64>() {
        Ok(ms) if (1..=600_000).contains(&ms) => Ok(ms),
        _ => Err("between 1 and 600000 milliseconds".into()),
    }
}

impl ReadyKind for Window {
    fn id(&self) -> &'static str {
        "window"
    }
    fn value(&self) -> &'static str {
        "TITLE"
    }
    fn optional(&self) -> bool {
        true
    }
    fn check(&self, value: &str) -> Result<(), String> {
        expression(value).map(drop)
    }
    fn needs_display(&self) -> bool {
        true
    }
    fn arm(&self, value: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let title = (!value.is_empty()).then(|| expression(value)).transpose();
        watch(Wanted::Shown(title.map_err(ProbeError::new)?), scene)
    }
}

impl ReadyKind for Content {
    fn id(&self) -> &'static str {
        "content"
    }
    fn value(&self) -> &'static str {
        ""
    }
    fn needs_display(&self) -> bool {
        true
    }
    /// Each drawing is checked before the next one.
    fn error_ns(&self) -> u64 {
        1_000_000
    }
    fn arm(&self, _: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        watch(Wanted::Drawn, scene)
    }
}

impl ReadyKind for Settled {
    fn id(&self) -> &'static str {
        "settled"
    }
    fn value(&self) -> &'static str {
        "MS"
    }
    fn optional(&self) -> bool {
        false
    }
    fn check(&self, value: &str) -> Result<(), String> {
        number(value).map(drop)
    }
    fn needs_display(&self) -> bool {
        true
    }
    fn arm(&self, value: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let ms = number(value).map_err(ProbeError::new)?;
        watch(Wanted::Quiet(ms * 1_000_000), scene)
    }
}

/// The X server's answers fail after it has ended.
type Answer<T> = Result<T, Box<dyn std::error::Error>>;

fn watch(wanted: Wanted, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
    let Some(display) = scene.display else {
        return Err(ProbeError::new("there is no X server to see windows on"));
    };
    scene
        .command
        .env("DISPLAY", display.name())
        .env("XAUTHORITY", display.authority());
    let damage = !matches!(wanted, Wanted::Shown(_));
    let connect = || -> Answer<Screen> {
        let x = display.connect()?;
        let root = x.setup().roots.first().ok_or("no screen")?.root;
        let mask = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
        x.change_window_attributes(root, &mask)?.check()?;
        let net_name = x.intern_atom(false, b"_NET_WM_NAME")?.reply()?.atom;
        if damage {
            x.damage_query_version(1, 1)?.reply()?;
            let id = x.generate_id()?;
            x.damage_create(id, root, ReportLevel::RAW_RECTANGLES)?
                .check()?;
        }
        Ok(Screen {
            x,
            wanted,
            net_name,
            shown: Vec::new(),
            last_drawn: None,
            more: false,
        })
    };
    let screen =
        connect().map_err(|e| ProbeError::new(format!("the X server {}: {e}", display.name())))?;
    Ok(Box::new(screen))
}

struct Screen {
    x: RustConnection,
    wanted: Wanted,
    net_name: u32,
    /// Windows of programs that are on the screen, the first one first.
    shown: Vec<Id>,
    last_drawn: Option<u64>,
    /// Whether there may be events that have been read from the X server but not processed.
    more: bool,
}

impl Screen {
    fn event(&mut self, event: &Event, at_ns: u64) -> Answer<Option<ReadyEvent>> {
        match event {
            Event::MapNotify(map) if !map.override_redirect && self.is_real(map.window)? => {
                self.shown.push(map.window);
                self.last_drawn.get_or_insert(at_ns);
                let mask = EventMask::PROPERTY_CHANGE;
                let titles = ChangeWindowAttributesAux::new().event_mask(mask);
                let asked = self.x.change_window_attributes(map.window, &titles)?;
                match asked.check() {
                    // It may be closed by now.
                    Ok(()) | Err(ReplyError::X11Error(_)) => {}
                    Err(e) => return Err(e.into()),
                }
                self.named(map.window, at_ns)
            }
            Event::PropertyNotify(change) if self.shown.contains(&change.window) => {
                self.named(change.window, at_ns)
            }
            Event::UnmapNotify(gone) => {
                self.shown.retain(|w| *w != gone.window);
                Ok(None)
            }
            Event::DamageNotify(damage) if !self.shown.is_empty() => {
                self.last_drawn = Some(at_ns);
                if matches!(self.wanted, Wanted::Drawn) && self.has_content(damage.area)? {
                    let window = self.title(self.shown[0])?;
                    return Ok(Some(ReadyEvent { at_ns, window }));
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The window, if it matches the condition.
    fn named(&self, window: Id, at_ns: u64) -> Answer<Option<ReadyEvent>> {
        let Wanted::Shown(wanted) = &self.wanted else {
            return Ok(None);
        };
        let title = self.title(window)?;
        let matches = wanted
            .as_ref()
            .is_none_or(|w| title.as_ref().is_some_and(|t| w.is_match(t.as_bytes())));
        Ok(matches.then_some(ReadyEvent {
            at_ns,
            window: title,
        }))
    }

    /// Programs also create windows of one pixel, and windows that only take input.
    fn is_real(&self, window: Id) -> Answer<bool> {
        let attributes = self.x.get_window_attributes(window)?;
        let size = self.x.get_geometry(window)?;
        // It may be closed by now.
        let (Ok(attributes), Ok(size)) = (attributes.reply(), size.reply()) else {
            return Ok(false);
        };
        let large = size.width > 1 && size.height > 1;
        Ok(large && attributes.class == WindowClass::INPUT_OUTPUT)
    }

    fn title(&self, window: Id) -> Answer<Option<String>> {
        for name in [self.net_name, AtomEnum::WM_NAME.into()] {
            let asked = self
                .x
                .get_property(false, window, name, AtomEnum::ANY, 0, 1024)?;
            if let Ok(reply) = asked.reply()
                && !reply.value.is_empty()
            {
                return Ok(Some(String::from_utf8_lossy(&reply.value).into_owned()));
            }
        }
        Ok(None)
    }

    /// More than one colour: the background alone is drawn by the server, not by the program.
    fn has_content(&self, area: Rectangle) -> Answer<bool> {
        let root = self.x.setup().roots[0].root;
        let (x, y, w, h) = (area.x, area.y, area.width, area.height);
        let image = self
            .x
            .get_image(ImageFormat::Z_PIXMAP, root, x, y, w, h, !0)?;
        // Partly off the screen, or closed.
        let Ok(image) = image.reply() else {
            return Ok(false);
        };
        let mut pixels = image.data.chunks_exact(4);
        let first = pixels.next();
        Ok(pixels.any(|p| Some(p) != first))
    }
}

impl Ready for Screen {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.x.stream().as_fd()]
    }

    /// No events means that nothing changes.
    fn every_ns(&self) -> Option<u64> {
        match self.wanted {
            // At once, because polling does not report them.
            _ if self.more => Some(0),
            Wanted::Quiet(quiet) if self.last_drawn.is_some() => Some((quiet / 10).max(1_000_000)),
            _ => None,
        }
    }

    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        let gone =
            |e: Box<dyn std::error::Error>| ProbeError::new(format!("the X server has ended: {e}"));
        self.more = true;
        for _ in 0..MOST {
            let at_ns = monotonic_ns();
            let event = self.x.poll_for_event().map_err(|e| gone(e.into()))?;
            let Some(event) = event else {
                self.more = false;
                break;
            };
            if let Some(found) = self.event(&event, at_ns).map_err(gone)? {
                return Ok(Some(found));
            }
        }
        match (&self.wanted, self.last_drawn, self.shown.first()) {
            (Wanted::Quiet(quiet), Some(last), Some(window))
                if !self.more && monotonic_ns().saturating_sub(last) >= *quiet =>
            {
                // The time of the last drawing, not of the end of the quiet after it.
                let window = self.title(*window).map_err(gone)?;
                Ok(Some(ReadyEvent {
                    at_ns: last,
                    window,
                }))
            }
            _ => Ok(None),
        }
    }
}
