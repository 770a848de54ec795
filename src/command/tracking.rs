//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO. Not here: what is remembered and told
//! (`engine::tracking`), the entries (`client`).

use crate::base::error::CommandError;
use crate::engine::spec::{Context, Outcome};
use crate::engine::tracking::{Choice, Tracker};
use crate::resp::{Args, Reply};
use std::collections::BTreeSet;

type Answer = Result<Outcome, CommandError>;

/// What CLIENT TRACKING's options say.
#[derive(Default)]
struct Options<'a> {
    redirect: i64,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(ctx: &Context<'_>, args: &Args<'a>) -> Result<Self, CommandError> {
        let mut options = Options::default();
        let mut at = 3;
        while at < args.len() {
            let more = at + 1 < args.len();
            if args.is(at, "redirect") && more {
                at += 1;
                if options.redirect != 0 {
                    return Err(CommandError::fixed(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                options.redirect = args.int(at)?;
                let id = u64::try_from(options.redirect).ok();
                if id.and_then(|id| ctx.core.clients.find(id)).is_none() {
                    return Err(CommandError::fixed("ERR The client ID you want redirect to does not exist"));
                }
            } else if args.is(at, "bcast") {
                options.broadcast = true;
            } else if args.is(at, "optin") {
                options.opt_in = true;
            } else if args.is(at, "optout") {
                options.opt_out = true;
            } else if args.is(at, "noloop") {
                options.no_loop = true;
            } else if args.is(at, "prefix") && more {
                at += 1;
                options.prefixes.push(args.get(at));
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }

    /// Whether they go together, and with what the client has.
    fn check(&self, old: Option<&Tracker>) -> Result<(), CommandError> {
        let refuse = |text| Err(CommandError::fixed(text));
        if !self.broadcast && !self.prefixes.is_empty() {
            return refuse("ERR PREFIX option requires BCAST mode to be enabled");
        }
        if old.is_some_and(|old| old.broadcast != self.broadcast) {
            return refuse(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            );
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return refuse("ERR OPTIN and OPTOUT are not compatible with BCAST");
        }
        if self.opt_in && self.opt_out {
            return refuse("ERR You can't specify both OPTIN mode and OPTOUT mode");
        }
        let was = |choice| old.is_some_and(|old| old.choice == choice);
        if (self.opt_in && was(Choice::OptOut)) || (self.opt_out && was(Choice::OptIn)) {
            return refuse(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            );
        }
        self.check_prefixes(old)
    }

    /// One client's prefixes must not overlap: it would hear of a key twice.
    fn check_prefixes(&self, old: Option<&Tracker>) -> Result<(), CommandError> {
        let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
        let refuse = |new: &[u8], kind: &str, other: &[u8]| {
            let line = [
                &b"ERR Prefix '"[..],
                new,
                b"' overlaps with ",
                kind.as_bytes(),
                b" prefix '",
                other,
                b"'. Prefixes for a single client must not overlap.",
            ];
            Err(CommandError::Bytes(line.concat()))
        };
        for (i, new) in self.prefixes.iter().enumerate() {
            let mut existing = old.into_iter().flat_map(|old| &old.prefixes);
            if let Some(other) = existing.find(|other| overlap(new, other)) {
                return refuse(new, "an existing", other);
            }
            if let Some(other) = self.prefixes[i + 1..].iter().find(|other| overlap(new, other)) {
                return refuse(new, "another provided", other);
            }
        }
        Ok(())
    }
}

pub(super) fn tracking(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let options = Options::read(ctx, args)?;
    if args.is(2, "on") {
        options.check(ctx.core.clients.get(ctx.client).tracker.as_deref())?;
        let choice = match (options.opt_in, options.opt_out) {
            (true, _) => Choice::OptIn,
            (_, true) => Choice::OptOut,
            _ => Choice::All,
        };
        let tracker = Tracker {
            redirect: u64::try_from(options.redirect).ok().filter(|&id| id != 0),
            redirect_broken: false,
            broadcast: options.broadcast,
            choice,
            caching: false,
            no_loop: options.no_loop,
            prefixes: options.prefixes.iter().map(|&prefix| prefix.into()).collect::<BTreeSet<_>>(),
        };
        ctx.core.track(ctx.client, tracker);
    } else if args.is(2, "off") {
        ctx.core.untrack(ctx.client);
    } else {
        return Err(CommandError::Syntax);
    }
    reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn caching(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let Some(tracker) = &mut ctx.core.clients.get_mut(ctx.client).tracker else {
        return Err(CommandError::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
             mode enabled",
        ));
    };
    let (wanted, refusal) = if args.is(2, "yes") {
        (Choice::OptIn, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
    } else if args.is(2, "no") {
        (Choice::OptOut, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
    } else {
        return Err(CommandError::Syntax);
    };
    if tracker.choice != wanted {
        return Err(CommandError::fixed(refusal));
    }
    tracker.caching = true;
    reply.ok();
    Ok(Outcome::Done)
}

/// Where invalidations go: to another client, 0: to itself, -1: nowhere.
pub(super) fn redirect(tracker: Option<&Tracker>) -> i64 {
    tracker.map_or(-1, |tracker| tracker.redirect.unwrap_or(0).cast_signed())
}

pub(super) fn getredir(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    reply.integer(redirect(ctx.core.clients.get(ctx.client).tracker.as_deref()));
    Ok(Outcome::Done)
}

pub(super) fn trackinginfo(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let tracker = ctx.core.clients.get(ctx.client).tracker.as_deref();
    let mut flags = Vec::new();
    match tracker {
        None => flags.push("off"),
        Some(tracker) => {
            flags.push("on");
            let mut flag = |set: bool, name| flags.extend(set.then_some(name));
            flag(tracker.broadcast, "bcast");
            flag(tracker.choice == Choice::OptIn, "optin");
            flag(tracker.choice == Choice::OptIn && tracker.caching, "caching-yes");
            flag(tracker.choice == Choice::OptOut, "optout");
            flag(tracker.choice == Choice::OptOut && tracker.caching, "caching-no");
            flag(tracker.no_loop, "noloop");
            flag(tracker.redirect_broken, "broken_redirect");
        }
    }
    reply.map(3);
    reply.text("flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.text(flag));
    reply.text("redirect");
    reply.integer(redirect(tracker));
    reply.text("prefixes");
    let prefixes = tracker.map(|tracker| &tracker.prefixes);
    reply.array(prefixes.map_or(0, BTreeSet::len));
    prefixes.into_iter().flatten().for_each(|prefix| reply.bulk(prefix));
    Ok(Outcome::Done)
}
