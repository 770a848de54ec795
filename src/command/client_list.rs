//! CLIENT INFO, LIST and KILL: which clients, and a client's line. Not here: what a client sets for
//! itself (`client`).

use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::core::Core;
use crate::engine::pubsub::Kind as Listening;
use crate::engine::session::{Closing, Session};
use crate::engine::spec::{Context, Outcome};
use crate::resp::{Args, Protocol, Reply};

type Answer = Result<Outcome, CommandError>;

/// The kinds of client that CLIENT LIST TYPE and CLIENT KILL TYPE know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Master,
    Replica,
    PubSub,
}

impl Kind {
    fn read(word: &[u8]) -> Result<Kind, CommandError> {
        Ok(match word.to_ascii_lowercase().as_slice() {
            b"normal" => Kind::Normal,
            b"master" => Kind::Master,
            b"slave" | b"replica" => Kind::Replica,
            b"pubsub" => Kind::PubSub,
            _ => return Err(CommandError::Bytes([&b"ERR Unknown client type '"[..], word, b"'"].concat())),
        })
    }

    /// There are no masters and replicas.
    fn of(session: &Session) -> Kind {
        if session.subscriptions > 0 { Kind::PubSub } else { Kind::Normal }
    }
}

/// One client's line, as Redis 7.2 writes it, without its end.
fn line(core: &Core, at: usize, now: UnixMs) -> Vec<u8> {
    let session = core.clients.get(at);
    let listens = |kind| core.pubsub.count(at, kind);
    let command = session.last_command.map_or("NULL", |id| core.table.get(id).full_name.as_str());
    let outbox = &session.outbox;
    let mut flags = String::new();
    let mut flag = |set: bool, letter| {
        if set {
            flags.push(letter);
        }
    };
    let tracker = session.tracker.as_deref();
    flag(session.monitor, 'O');
    flag(session.subscriptions > 0, 'P');
    flag(session.queue.is_some(), 'x');
    flag(session.waits(), 'b');
    flag(tracker.is_some(), 't');
    flag(tracker.is_some_and(|tracker| tracker.redirect_broken), 'R');
    flag(tracker.is_some_and(|tracker| tracker.broadcast), 'B');
    flag(session.watch_broken, 'd');
    flag(session.closing == Closing::AfterReply, 'c');
    flag(session.closing == Closing::Now, 'A');
    flag(session.unix, 'U');
    flag(session.read_only, 'r');
    flag(session.no_evict, 'e');
    flag(session.no_touch, 'T');
    if flags.is_empty() {
        flags.push('N');
    }
    let queued = session.queue.as_ref().map_or(-1, |queue| queue.commands.len() as i64);
    let queued_bytes = session.queue.as_ref().map_or(0, |queue| queue.bytes);
    let total = size_of::<Session>() + outbox.memory() + session.input_len + queued_bytes;
    let mut line =
        format!("id={} addr={} laddr={} fd={} name=", session.id, session.addr, session.laddr, session.fd)
            .into_bytes();
    line.extend_from_slice(&session.name);
    line.extend_from_slice(
        format!(
            " age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={queued} qbuf={} qbuf-free=0 \
             argv-mem=0 multi-mem={queued_bytes} rbs=0 rbp=0 obl={} oll={} omem={} tot-mem={total} \
             events={} cmd={command} user=default redir={} resp={} lib-name=",
            now.since(session.connected_at).max(0) / 1000,
            now.since(session.active_at).max(0) / 1000,
            session.db,
            listens(Listening::Channel),
            listens(Listening::Pattern),
            listens(Listening::Shard),
            session.input_len,
            outbox.flat_len(),
            outbox.piece_count(),
            outbox.piece_memory(),
            if outbox.is_empty() { "r" } else { "rw" },
            super::tracking::redirect(tracker),
            if session.protocol == Protocol::Resp3 { 3 } else { 2 },
        )
        .as_bytes(),
    );
    line.extend_from_slice(&session.lib_name);
    line.extend_from_slice(b" lib-ver=");
    line.extend_from_slice(&session.lib_ver);
    line
}

/// CLIENT INFO.
pub(super) fn info(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let mut line = line(ctx.core, ctx.client, ctx.now);
    line.push(b'\n');
    reply.verbatim(b"txt", &line);
    Ok(Outcome::Done)
}

/// CLIENT LIST.
pub(super) fn list(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let mut places = ctx.core.clients.by_age();
    if args.len() == 4 && args.is(2, "type") {
        let kind = Kind::read(args.get(3))?;
        places.retain(|&at| Kind::of(ctx.core.clients.get(at)) == kind);
    } else if args.len() > 3 && args.is(2, "id") {
        places.clear();
        for word in args.rest(3) {
            let id = number::parse_i64(word).ok_or(CommandError::fixed("ERR Invalid client ID"))?;
            places.extend(u64::try_from(id).ok().and_then(|id| ctx.core.clients.find(id)));
        }
    } else if args.len() != 2 {
        return Err(CommandError::Syntax);
    }
    let mut lines = Vec::new();
    for at in places {
        lines.extend(line(ctx.core, at, ctx.now));
        lines.push(b'\n');
    }
    reply.verbatim(b"txt", &lines);
    Ok(Outcome::Done)
}

/// Whom CLIENT KILL means.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    kind: Option<Kind>,
    /// Least seconds since it connected (newer than 7.2).
    max_age: Option<i64>,
    with_me: bool,
}

impl<'a> Filter<'a> {
    fn read(args: &Args<'a>) -> Result<Self, CommandError> {
        let mut filter = Filter::default();
        for i in (2..args.len()).step_by(2) {
            let value = args.try_get(i + 1).ok_or(CommandError::Syntax)?;
            if args.is(i, "id") {
                let id = number::parse_i64(value).filter(|&id| id > 0);
                let id = id.ok_or(CommandError::fixed("ERR client-id should be greater than 0"))?;
                filter.id = Some(id as u64);
            } else if args.is(i, "addr") {
                filter.addr = Some(value);
            } else if args.is(i, "laddr") {
                filter.laddr = Some(value);
            } else if args.is(i, "type") {
                filter.kind = Some(Kind::read(value)?);
            } else if args.is(i, "user") {
                if value != b"default" {
                    return Err(CommandError::Bytes([&b"ERR No such user '"[..], value, b"'"].concat()));
                }
            } else if args.is(i, "skipme") {
                filter.with_me = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => false,
                    b"no" => true,
                    _ => return Err(CommandError::Syntax),
                };
            } else if args.is(i, "maxage") {
                let wrong = CommandError::fixed("ERR maxage is not an integer or out of range");
                let seconds = number::parse_i64(value).ok_or(wrong)?;
                if seconds <= 0 {
                    return Err(CommandError::fixed("ERR maxage should be greater than 0"));
                }
                filter.max_age = Some(seconds);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(filter)
    }

    fn means(&self, session: &Session, now: UnixMs) -> bool {
        self.id.is_none_or(|id| session.id == id)
            && self.addr.is_none_or(|addr| session.addr.as_bytes() == addr)
            && self.laddr.is_none_or(|laddr| session.laddr.as_bytes() == laddr)
            && self.kind.is_none_or(|kind| Kind::of(session) == kind)
            && self.max_age.is_none_or(|seconds| now.since(session.connected_at) / 1000 >= seconds)
    }
}

/// CLIENT KILL, with an address alone (answers OK or an error) or with filters (answers how many).
pub(super) fn kill(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let by_address = args.len() == 3;
    let filter = if by_address {
        Filter { addr: Some(args.get(2)), with_me: true, ..Filter::default() }
    } else {
        Filter::read(args)?
    };
    let core = &mut *ctx.core;
    let mut meant = core.clients.by_age();
    meant.retain(|&at| (filter.with_me || at != ctx.client) && filter.means(core.clients.get(at), ctx.now));
    if by_address && meant.is_empty() {
        return Err(CommandError::fixed("ERR No such client"));
    }
    for &at in &meant {
        if at == ctx.client {
            core.close_after_reply(at);
        } else {
            core.clients.kill(at);
        }
    }
    if by_address {
        reply.ok();
    } else {
        reply.integer(meant.len() as i64);
    }
    Ok(Outcome::Done)
}

/// Whether argument 2 says `on`; else it must say `off`.
pub(super) fn on_or_off(args: &Args<'_>) -> Result<bool, CommandError> {
    let on = args.is(2, "on");
    if on || args.is(2, "off") { Ok(on) } else { Err(CommandError::Syntax) }
}
