//! One connection: read, cut requests, run them, write. Synchronous but for readiness: there is no
//! await between a request and its reply. Not here: accepting (`listen`).

use super::batch::{self, Batch, End};
use super::socket::Stream;
use super::{READ_SIZE, Shared};
use crate::engine::outbox::Outbox;
use crate::engine::session::Closing;
use crate::engine::{Door, Flow};
use crate::resp::request::{Limits, Parser};
use crate::resp::{Args, Reply};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::unix::AsyncFd;

/// Requests that one connection may run before others get their turn.
const SHARE: usize = 1024;

/// Bytes of replies that one connection may have made, or of requests that it may have sent, before
/// others get their turn.
const SHARE_BYTES: usize = 256 * 1024;

/// Bytes of its outbox that one connection may write before others get their turn: few, since all
/// subscribers of a channel have as many to write at once.
const WRITE_SHARE: usize = 64 * 1024;

/// How many runs of the outbox go into one write.
const RUNS: usize = 16;

/// From so many requests on it pays to bring their keys into the cache first.
const WARM_FROM: usize = 4;

/// Free room that a read into a connection's own buffer finds.
const READ_ROOM: usize = 16 * 1024;

/// One connection.
pub struct Conn {
    /// The client's place in the registry.
    pub place: usize,
    pub fd: AsyncFd<Stream>,
    pub state: RefCell<State>,
    waker: RefCell<Option<Waker>>,
}

/// What has been received and not run.
#[derive(Default)]
pub struct State {
    /// Bytes of requests that are not complete, or whose turn has not come.
    input: Vec<u8>,
    /// Where the unparsed bytes of `input` begin.
    start: usize,
    parser: Parser,
    /// `input` may hold a whole request: the share was used up, or the client waited.
    ready: bool,
    /// Bytes read since the others had their turn.
    read: usize,
    /// The peer has closed, or the protocol is broken: nothing more is read.
    deaf: bool,
}

impl Conn {
    /// A connection for the client at `place`.
    pub fn new(place: usize, fd: AsyncFd<Stream>) -> Self {
        Conn { place, fd, state: RefCell::default(), waker: RefCell::new(None) }
    }

    /// Has its task look at it.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    fn note_waker(&self, waker: &Waker) {
        let mut noted = self.waker.borrow_mut();
        if !noted.as_ref().is_some_and(|noted| noted.will_wake(waker)) {
            *noted = Some(waker.clone());
        }
    }

    /// Reads once and runs what has come. `Ok(full)`: whether the read filled its buffer, so that
    /// there may be more.
    pub fn receive(&self, state: &mut State, door: &mut dyn Door, shared: &Shared) -> io::Result<bool> {
        let stream = self.fd.get_ref();
        if state.input.is_empty() && !door.core().clients.get(self.place).waits() {
            let mut buffer = shared.take_read_buffer();
            let read = stream.read(&mut buffer);
            if let Ok(n @ 1..) = read {
                state.read += n;
                self.count_input(door, n, n);
                let used = self.run(state, door, shared, &buffer[..n]);
                state.input.extend_from_slice(&buffer[used..n]);
            }
            shared.give_read_buffer(buffer);
            return self.received(state, door, read, READ_SIZE);
        }
        // A request is under way: read behind it, with room for a good part of what is announced.
        let len = state.input.len();
        let room = state.parser.wanted(len - state.start).clamp(READ_ROOM, 1024 * 1024);
        state.input.resize(len + room, 0);
        let read = stream.read(&mut state.input[len..]);
        state.input.truncate(len + read.as_ref().copied().unwrap_or(0));
        if let Ok(n @ 1..) = read {
            state.read += n;
            self.count_input(door, n, len - state.start + n);
            self.run_input(state, door, shared);
        }
        self.received(state, door, read, room)
    }

    fn received(
        &self,
        state: &mut State,
        door: &mut dyn Door,
        read: io::Result<usize>,
        asked: usize,
    ) -> io::Result<bool> {
        let waiting = state.input.len() - state.start;
        let core = door.core();
        core.clients.get_mut(self.place).input_len = waiting;
        if waiting as u64 > core.config.client_query_buffer_limit {
            core.stats.query_limit_disconnections += 1;
            core.clients.get_mut(self.place).closing = Closing::Now;
        }
        match read {
            Ok(0) => {
                state.deaf = true;
                core.clients.get_mut(self.place).closing = Closing::Now;
                Ok(false)
            }
            Ok(n) => Ok(n == asked),
            Err(error) => Err(error),
        }
    }

    fn count_input(&self, door: &mut dyn Door, n: usize, waiting: usize) {
        let core = door.core();
        core.begin_turn();
        core.stats.net_input += n as u64;
        core.stats.reads += 1;
        let session = core.clients.get_mut(self.place);
        session.bytes_in += n as u64;
        session.input_len = waiting;
    }

    /// Runs what waits in the connection's own buffer.
    pub fn run_input(&self, state: &mut State, door: &mut dyn Door, shared: &Shared) {
        let input = std::mem::take(&mut state.input);
        let start = std::mem::take(&mut state.start);
        let used = start + self.run(state, door, shared, &input[start..]);
        state.input = input;
        if used == state.input.len() {
            state.input = Vec::new();
        } else if used > state.input.len() / 2 {
            state.input.drain(..used);
            if state.input.capacity() > 4 * state.input.len().max(READ_ROOM) {
                state.input.shrink_to_fit();
            }
        } else {
            state.start = used;
        }
    }

    /// Cuts requests out of `data`, runs them and writes their replies at once. Returns how many
    /// bytes are done with.
    fn run(&self, state: &mut State, door: &mut dyn Door, shared: &Shared, data: &[u8]) -> usize {
        let mut used = 0;
        state.ready = false;
        if door.core().clients.get(self.place).waits() {
            state.ready = true;
            return used;
        }
        let mut out = shared.take_out_buffer();
        let mut share = SHARE;
        loop {
            let limits = self.limits(door);
            // AUTH changes the limits: before it, no request is cut ahead.
            let most = if limits.authenticated { batch::AHEAD } else { 1 };
            let began = used;
            let (requests, end) = Batch::cut(&mut state.parser, data, used, &limits, most);
            if requests.count() >= WARM_FROM {
                door.core().warm(self.place, requests.requests());
            }
            let (mut flow, mut left_over) = (Flow::Next, false);
            for i in 0..requests.count() {
                let (words, end_of_it) = requests.get(i);
                let inline;
                let words = if words.is_empty() && end == End::Inline && i + 1 == requests.count() {
                    inline = state.parser.args(&[]);
                    &inline[..]
                } else {
                    words
                };
                used = end_of_it;
                if words.is_empty() {
                    continue;
                }
                flow = door.execute(self.place, &Args::new(words), &mut out);
                share = if out.len() < SHARE_BYTES { share - 1 } else { 0 };
                if flow == Flow::Retry {
                    used = if i == 0 { began } else { requests.get(i - 1).1 };
                    left_over = true;
                    break;
                }
                if flow != Flow::Next || share == 0 {
                    left_over = i + 1 < requests.count();
                    break;
                }
            }
            if left_over {
                // What was cut and has not run is cut again when its turn comes.
                state.parser = Parser::default();
            }
            match (flow, end) {
                (Flow::Close, _) => {
                    state.deaf = true;
                    used = data.len();
                    break;
                }
                (Flow::Wait | Flow::Retry, _) => {
                    state.ready = true;
                    break;
                }
                (Flow::Next, _) if share == 0 => {
                    state.ready = true;
                    break;
                }
                (Flow::Next, End::Need) => break,
                (Flow::Next, End::Full | End::Inline) => {}
                (Flow::Next, End::Broken(error)) => {
                    let core = door.core();
                    core.stats.error("ERR");
                    core.writer(self.place, &mut out).error_line(&error.line());
                    core.close_after_reply(self.place);
                    state.deaf = true;
                    used = data.len();
                    break;
                }
            }
        }
        self.write(door, &mut out);
        shared.give_out_buffer(out);
        used
    }

    fn limits(&self, door: &mut dyn Door) -> Limits {
        let core = door.core();
        let authenticated = core.clients.get(self.place).authenticated;
        Limits { max_bulk: core.config.proto_max_bulk_len, authenticated }
    }

    /// Writes `out` if nothing older waits; what the socket does not take waits in the outbox.
    fn write(&self, door: &mut dyn Door, out: &mut Vec<u8>) {
        if out.is_empty() {
            return;
        }
        let core = door.core();
        let session = core.clients.get_mut(self.place);
        let mut written = 0;
        if session.outbox.is_empty() {
            match self.fd.get_ref().write(out) {
                Ok(n) => written = n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    session.closing = Closing::Now;
                    return;
                }
            }
            session.bytes_out += written as u64;
            core.stats.net_output += written as u64;
            core.stats.writes += 1;
        }
        if written < out.len() {
            session.outbox.add_buffer(out, written);
            core.check_output(self.place);
        }
    }

    /// Writes what waits in the outbox, as far as the socket is ready for it. `Ok(true)`: the share
    /// is used up before that.
    fn flush(&self, cx: &mut Context<'_>, door: &mut dyn Door) -> io::Result<bool> {
        let mut share = WRITE_SHARE;
        let core = door.core();
        let session = core.clients.get_mut(self.place);
        while !session.outbox.is_empty() {
            if share == 0 {
                return Ok(true);
            }
            let Poll::Ready(guard) = self.fd.poll_write_ready(cx) else { return Ok(false) };
            let mut guard = guard?;
            let written = self.fd.get_ref().write_runs(&first_runs(&session.outbox, share));
            match written {
                Ok(n) => {
                    core.stats.net_output += n as u64;
                    session.bytes_out += n as u64;
                    session.outbox.wrote(n);
                    share -= n;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// What of `outbox` goes into one write, up to `room` bytes.
fn first_runs(outbox: &Outbox, mut room: usize) -> SmallVec<[IoSlice<'_>; RUNS]> {
    let runs = outbox.runs().take(RUNS).map_while(|run| {
        let part = &run[..run.len().min(room)];
        room -= part.len();
        (!part.is_empty()).then(|| IoSlice::new(part))
    });
    runs.collect()
}

/// Has the task of `cx` run again once the event loop has looked for what is ready elsewhere. To
/// wake it would not do: the loop looks only once in many tasks.
fn after_the_others(cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    match pin!(tokio::task::yield_now()).poll(cx) {
        Poll::Ready(()) => cx.waker().wake_by_ref(),
        Poll::Pending => {}
    }
    Poll::Pending
}

/// The task that serves one connection until its end.
pub struct Task {
    pub conn: Rc<Conn>,
    pub shared: Rc<Shared>,
}

impl Task {
    /// One look at the connection; ready when it has ended.
    fn step(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let conn = &*self.conn;
        let mut engine = self.shared.engine.borrow_mut();
        let mut state = conn.state.borrow_mut();
        state.read = 0;
        loop {
            let writes_on = conn.flush(cx, &mut *engine)?;
            let session = engine.core().clients.get(conn.place);
            match session.closing {
                Closing::Now => return Poll::Ready(Ok(())),
                Closing::AfterReply if session.outbox.is_empty() => {
                    conn.fd.get_ref().finish();
                    return Poll::Ready(Ok(()));
                }
                Closing::AfterReply | Closing::No if writes_on || state.read >= SHARE_BYTES => {
                    return after_the_others(cx);
                }
                Closing::AfterReply => return Poll::Pending,
                Closing::No => {}
            }
            let waits = session.waits();
            if state.ready && !waits {
                engine.core().begin_turn();
                conn.run_input(&mut state, &mut *engine, &self.shared);
            } else {
                if state.deaf {
                    return Poll::Pending;
                }
                let mut guard = ready!(conn.fd.poll_read_ready(cx))?;
                match conn.receive(&mut state, &mut *engine, &self.shared) {
                    Ok(true) => {}
                    Ok(false) => guard.clear_ready(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            self.shared.after_turn(&mut *engine);
            if state.ready && !engine.core().clients.get(conn.place).waits() {
                // Its share is used up; the others come first.
                return after_the_others(cx);
            }
        }
    }
}

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.conn.note_waker(cx.waker());
        let ended = ready!(self.step(cx));
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection failed");
        }
        Poll::Ready(())
    }
}

/// The client leaves with its task, also where the task ends by a panic: nobody is left waiting for
/// an answer.
impl Drop for Task {
    fn drop(&mut self) {
        let place = self.conn.place;
        let Ok(mut engine) = self.shared.engine.try_borrow_mut() else { return };
        let mine = {
            let mut conns = self.shared.conns.borrow_mut();
            let slot = conns.get_mut(place);
            slot.and_then(|slot| slot.take_if(|conn| Rc::ptr_eq(conn, &self.conn))).is_some()
        };
        if mine {
            engine.core().disconnect(place);
            self.shared.after_turn(&mut *engine);
        }
    }
}
