//! The mistakes, each as one small detector over one deed and the lock as it was before it. Not
//! here: when they are asked (`book`), how a deed is made out (`observe`).

use super::hold::{ATTEMPTS, Deed, Did, End, Hold, Lock, Past, Waiter, Who};
use super::view;
use super::words::{Call, Words};
use crate::base::clock::UnixMs;
use crate::engine::spec::LockPart;
use smallvec::SmallVec;

/// More are counted, not kept.
pub const FINDINGS_MAX: usize = 1000;

macro_rules! mistakes {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $instead:literal;)*) => {
        /// What can be done wrong with a lock.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Mistake { $($(#[$doc])* $id,)* }

        impl Mistake {
            /// Each of them.
            pub const ALL: &'static [Mistake] = &[$(Mistake::$id),*];

            /// As KEYLATCH FINDINGS names it.
            pub fn name(self) -> &'static str {
                match self { $(Mistake::$id => $name,)* }
            }

            /// What to do instead.
            pub fn instead(self) -> &'static str {
                match self { $(Mistake::$id => $instead,)* }
            }
        }
    };
}

mistakes! {
    /// Taken first, given its deadline by a second command.
    TwoStepAcquire = "two-step-acquire",
        "take it and give it its deadline in one command: SET key token NX PX milliseconds";
    /// Held without a deadline when its client hung up or its test was over.
    NoDeadline = "no-deadline",
        "give every lock a deadline as it is taken (SET key token NX PX milliseconds), and renew it while the work goes on";
    /// Deleted by its holder, who did not compare the value.
    BareDelete = "bare-delete",
        "delete it only if it still holds your token: a script that compares (EVAL), DELEX key IFEQ token, or DELIFEQ key token";
    /// Taken from its holder by another client, who deleted, overwrote or renamed it and did not compare.
    ForeignRelease = "foreign-release",
        "delete or overwrite it only if it still holds your own token: a script that compares (EVAL), DELEX key IFEQ token, DELIFEQ key token, or SET key token IFEQ token";
    /// A release or renewal that came when the lock had expired or was another's.
    Overrun = "overrun",
        "let the lock live longer than the work, or renew it in time; and let what is written under it be refused by a fencing token (INCR) once it is another's";
    /// EXPIRE answered 0: there was no lock to renew.
    MissedRenewal = "missed-renewal",
        "renew with a comparison (a script, or PEXPIRE key milliseconds IFEQ token where there is one), and stop the work where the answer is 0";
    /// A renewal by nothing or less, which removes the lock and answers 1.
    RenewalThatDeletes = "renewal-that-deletes",
        "refuse to renew by 0 or less before anything is sent: EXPIRE with such a time deletes the key";
    /// One token for two clients, or for two acquisitions.
    SharedToken = "shared-token",
        "draw a new random token for each acquisition: it is all that tells one holder from the next";
    /// Refused attempts at equal intervals.
    LockstepRetry = "lockstep-retry",
        "wait for a random part of the interval between two attempts, so that those who wait do not come all at once";
    /// KEYS where SCAN belongs.
    KeysWalk = "keys-walk",
        "use SCAN with MATCH: KEYS keeps everybody waiting, locks as well, until it has seen every key";
    /// A write under a lock that its writer had lost.
    ExpiredOwnerWrite = "expired-owner-write",
        "hand the resource a fencing token (INCR at each acquisition) and let it refuse older ones, or compare the lock in the script that writes";
}

/// A mistake that a detector saw.
#[derive(Debug)]
pub struct Found {
    pub mistake: Mistake,
    pub commands: Vec<String>,
    pub detail: String,
}

/// What a detector is shown.
pub struct Sight<'a> {
    /// The lock as it was before the deed.
    pub lock: &'a Lock,
    pub deed: &'a Deed<'a>,
    /// The request in which it was done.
    pub unit: u64,
}

/// Those that look at one deed.
pub const DETECTORS: &[fn(&Sight<'_>) -> Option<Found>] = &[
    two_step_acquire,
    bare_delete,
    foreign_release,
    overrun,
    missed_renewal,
    renewal_that_deletes,
    lockstep_retry,
];

/// How a client is called in a sentence.
pub(super) fn named(who: Option<&Who>) -> String {
    match who {
        None => "somebody".to_owned(),
        Some(who) if who.name.is_empty() => format!("client {}", who.id),
        Some(who) => format!("client {} ({})", who.id, view::shown(&who.name)),
    }
}

impl Sight<'_> {
    fn found(&self, mistake: Mistake, detail: String) -> Option<Found> {
        let taken = self.lock.hold.as_ref().map(|hold| hold.words.command(&self.lock.key));
        self.found_after(mistake, taken, detail)
    }

    fn found_after(&self, mistake: Mistake, before: Option<String>, detail: String) -> Option<Found> {
        let commands = before.into_iter().chain([self.deed.call.text()]);
        Some(Found { mistake, commands: commands.filter(|command| !command.is_empty()).collect(), detail })
    }

    fn actor(&self) -> String {
        named(self.deed.who.as_ref())
    }

    fn is_holder(&self, hold: &Hold) -> bool {
        matches!((&hold.who, &self.deed.who), (Some(holder), Some(who)) if holder.is(who))
    }

    /// A lock that was taken in an earlier request, and ended now by somebody who did not compare;
    /// what was done to it, in a word.
    fn ended_unseen(&self) -> Option<(&Hold, &'static str)> {
        let hold = self.lock.hold.as_ref().filter(|hold| hold.who.is_some() && hold.unit != self.unit)?;
        let how = match (self.deed.did, self.deed.part) {
            (Did::Overwritten, _) => "overwrote",
            (Did::Removed, _) if self.by_deadline() => return None,
            (Did::Removed, LockPart::None) if self.moves() => "moved away",
            (Did::Removed, _) => "deleted",
            _ => return None,
        };
        (!self.deed.verified).then_some((hold, how))
    }

    /// What stores a value, renews or reads it (GETEX) removes a key only by a deadline in the past.
    fn by_deadline(&self) -> bool {
        match self.deed.part {
            LockPart::Renew | LockPart::Store => true,
            LockPart::None => self.is_called(b"getex"),
            _ => false,
        }
    }

    /// The value lives on under another name or in another database.
    fn moves(&self) -> bool {
        [&b"rename"[..], b"renamenx", b"move"].iter().any(|name| self.is_called(name))
    }

    fn is_called(&self, name: &[u8]) -> bool {
        self.deed.call.args.get(0).eq_ignore_ascii_case(name)
    }

    /// What became of `past` before the deed.
    fn how_it_was_lost(&self, past: &Past) -> String {
        let how = if past.end == End::Expired { "expired" } else { "been lost" };
        let now = match &self.lock.hold {
            Some(hold) => format!("and was {}'s by then", named(hold.who.as_ref())),
            None => "and was nobody's by then".to_owned(),
        };
        format!("had {how} {} ms before, {now}", self.deed.at.since(past.ended))
    }

    /// The hold that whoever acts lost before it acted: known by its token among the arguments, or,
    /// where nothing was compared, by its client.
    fn lost_before(&self) -> Option<&Past> {
        let deed = self.deed;
        let current = self.lock.hold.as_ref();
        let past = || self.lock.past.iter().rev();
        let by_token = past().find(|past| {
            let token = past.hold.words.token();
            past.end != End::Released
                && current.is_none_or(|hold| hold.words.token() != token)
                && deed.call.args.rest(1).contains(&token)
        });
        by_token.or_else(|| {
            let bare = match deed.part {
                LockPart::Remove | LockPart::Renew => true,
                LockPart::RemoveIf => deed.call.args.len() == 2, // DELEX without a condition
                _ => false,
            };
            let unseen = !deed.verified && bare;
            if !unseen || current.is_some_and(|hold| self.is_holder(hold)) {
                return None;
            }
            past().find(|past| self.is_holder(&past.hold)).filter(|past| past.end != End::Released)
        })
    }
}

fn two_step_acquire(sight: &Sight<'_>) -> Option<Found> {
    let hold = sight.lock.hold.as_ref()?;
    let second_step = sight.deed.did == Did::Renewed && sight.deed.deadline.is_some();
    if !second_step || hold.deadline.is_some() || hold.unit == sight.unit || hold.who.is_none() {
        return None;
    }
    let detail = format!(
        "it was taken without a deadline and got one {} ms later; a holder that dies in between leaves it for ever",
        sight.deed.at.since(hold.since)
    );
    sight.found(Mistake::TwoStepAcquire, detail)
}

fn bare_delete(sight: &Sight<'_>) -> Option<Found> {
    // Its own lock its holder may overwrite: with a new token, or a new deadline.
    let removed = sight.deed.did == Did::Removed;
    let (hold, how) = sight.ended_unseen().filter(|(hold, _)| removed && sight.is_holder(hold))?;
    let detail = format!(
        "{} {how} its lock without comparing the value; had it expired, another's would be gone",
        named(hold.who.as_ref())
    );
    sight.found(Mistake::BareDelete, detail)
}

fn foreign_release(sight: &Sight<'_>) -> Option<Found> {
    let (hold, how) = sight.ended_unseen().filter(|(hold, _)| !sight.is_holder(hold))?;
    let detail = format!("{} {how} the lock that {} held", sight.actor(), named(hold.who.as_ref()));
    sight.found(Mistake::ForeignRelease, detail)
}

fn overrun(sight: &Sight<'_>) -> Option<Found> {
    let late = match sight.deed.did {
        // Answered 0, which is `missed_renewal`: one finding for one mistake.
        Did::Missed => sight.deed.part != LockPart::Renew,
        Did::Removed | Did::Renewed | Did::Overwritten => true,
        Did::Acquired | Did::Refused => false,
    };
    let past = if late { sight.lost_before() } else { None }?;
    let detail = format!("the lock of {} {}", named(past.hold.who.as_ref()), sight.how_it_was_lost(past));
    sight.found_after(Mistake::Overrun, Some(past.hold.words.command(&sight.lock.key)), detail)
}

fn missed_renewal(sight: &Sight<'_>) -> Option<Found> {
    if sight.deed.did != Did::Missed || sight.deed.part != LockPart::Renew {
        return None;
    }
    if let Some(past) = sight.lost_before() {
        let detail = format!("{} was answered 0: its lock {}", sight.actor(), sight.how_it_was_lost(past));
        return sight.found_after(
            Mistake::MissedRenewal,
            Some(past.hold.words.command(&sight.lock.key)),
            detail,
        );
    }
    let state = if sight.lock.hold.is_some() { "the lock is another's" } else { "the lock was gone" };
    sight.found(Mistake::MissedRenewal, format!("{} was answered 0: {state}", sight.actor()))
}

fn renewal_that_deletes(sight: &Sight<'_>) -> Option<Found> {
    if sight.deed.did != Did::Removed || !sight.by_deadline() {
        return None;
    }
    let detail = format!(
        "{} set a deadline that had passed: the lock was deleted, and the answer was that of a success",
        sight.actor()
    );
    sight.found(Mistake::RenewalThatDeletes, detail)
}

/// Equal intervals that make a pattern where the clock is moved by hand: they are equal to the
/// millisecond then.
const STEPS_EXACT: usize = 4;
/// The same where time runs, and sleeping is never quite exact: more of them, within
/// `TOLERANCE_PERCENT` of the whole or two milliseconds.
const STEPS_RUNNING: usize = ATTEMPTS - 1;
const TOLERANCE_PERCENT: i64 = 2;
/// Who waits for less spins, which is another mistake.
const STEP_MIN_MS: i64 = 5;
/// Those whose attempts are remembered for a lock.
const WAITERS_MAX: usize = 64;

/// Keeps when `deed`'s client was refused, for `lockstep_retry`.
pub fn remember_refusal(lock: &mut Lock, deed: &Deed<'_>, words: &Words) {
    let Some(who) = &deed.who else { return };
    let at = match lock.waiters.iter().position(|waiter| waiter.who.id == who.id) {
        Some(at) => at,
        None => {
            if lock.waiters.len() == WAITERS_MAX {
                lock.waiters.remove(0);
            }
            lock.waiters.push(Waiter { who: who.clone(), at: SmallVec::new(), words: words.clone() });
            lock.waiters.len() - 1
        }
    };
    let attempts = &mut lock.waiters[at].at;
    if attempts.len() > STEPS_RUNNING {
        attempts.remove(0);
    }
    attempts.push(deed.at);
}

fn lockstep_retry(sight: &Sight<'_>) -> Option<Found> {
    if sight.deed.did != Did::Refused {
        return None;
    }
    let who = sight.deed.who.as_ref()?;
    let waiter = sight.lock.waiters.iter().find(|waiter| waiter.who.id == who.id)?;
    let step = pace(&waiter.at, sight.deed.time_runs)?;
    // A library that waits the same time always is not its user's mistake, and cannot be told from
    // the user's own loop but by a clock that the test moves.
    if sight.deed.time_runs && sight.deed.paced_library {
        return None;
    }
    let detail = format!("{} tried again every {step} ms, and was refused each time", sight.actor());
    let commands = vec![waiter.words.command(&sight.lock.key), sight.deed.call.text()];
    Some(Found { mistake: Mistake::LockstepRetry, commands, detail })
}

/// The interval between attempts, if it is always the same.
fn pace(at: &[UnixMs], time_runs: bool) -> Option<i64> {
    let steps = if time_runs { STEPS_RUNNING } else { STEPS_EXACT };
    let first = at.len().checked_sub(steps + 1)?;
    let gaps = || (first..at.len() - 1).map(|i| at[i + 1].since(at[i]));
    let (least, most) = (gaps().min()?, gaps().max()?);
    let tolerance = if time_runs { (most * TOLERANCE_PERCENT / 100).max(2) } else { 0 };
    let floor = if time_runs { STEP_MIN_MS } else { 1 };
    (least >= floor && most - least <= tolerance).then_some(least)
}

/// A lock without a deadline whose client hung up, or whose test is over.
pub fn no_deadline(hold: &Hold, key: &[u8], hung_up: bool) -> Found {
    let when = if hung_up { "hung up" } else { "was done" };
    let detail = format!(
        "{} {when} and left it held, without a deadline: nothing will ever free it",
        named(hold.who.as_ref())
    );
    Found { mistake: Mistake::NoDeadline, commands: vec![hold.words.command(key)], detail }
}

/// KEYS, by `who`.
pub fn keys_walk(who: &Who, call: &Call<'_>) -> Found {
    let detail = format!("{} listed keys by KEYS", named(Some(who)));
    Found { mistake: Mistake::KeysWalk, commands: vec![call.text()], detail }
}

/// A token of so many bytes may have been drawn at random; a shorter one is somebody's name.
const RANDOM_LEN: usize = 16;

/// How many tokens are remembered across locks.
const TOKENS: usize = 4096;

struct Taken {
    hash: u64,
    key: u64,
    unit: u64,
    who: Who,
}

/// Who took a lock with which token of late, whatever the lock. One place for each token, by its
/// hash; a newer one takes it.
#[derive(Default)]
pub struct Tokens {
    places: Vec<Option<Taken>>,
}

impl Tokens {
    /// Notes an acquisition; tells if its token was used before.
    pub fn take(&mut self, sight: &Sight<'_>) -> Option<Found> {
        let who = sight.deed.who.as_ref()?;
        if self.places.is_empty() {
            self.places.resize_with(TOKENS, || None);
        }
        let state = ahash::RandomState::with_seeds(5, 6, 7, 8);
        let (hash, key) = (state.hash_one(sight.deed.token), state.hash_one((sight.deed.db, sight.deed.key)));
        let new = Taken { hash, key, unit: sight.unit, who: who.clone() };
        let before = self.places[hash as usize % TOKENS].replace(new);
        if let Some(past) =
            sight.lock.past.iter().rev().find(|past| past.hold.words.token() == sight.deed.token)
        {
            // An acquisition whose reply was lost is tried again with its token, and that may last
            // until it has expired by itself. One that was not won on the other nodes of a Redlock is
            // given up here, and tried again with its token, which is a random one then.
            let unheard = past.end == End::Expired && past.hold.unheard;
            if unheard
                || (past.given_up
                    && sight.deed.token.len() >= RANDOM_LEN
                    && past.hold.who.as_ref() == Some(who))
            {
                return None;
            }
            let detail = format!(
                "{} took it with the token that {} had {} ms before",
                named(Some(who)),
                named(past.hold.who.as_ref()),
                sight.deed.at.since(past.hold.since)
            );
            let before = past.hold.words.command(&sight.lock.key);
            return sight.found_after(Mistake::SharedToken, Some(before), detail);
        }
        let before = before.filter(|old| old.hash == hash && old.unit != sight.unit && old.key != key)?;
        if before.who.is(who) {
            return None;
        }
        let detail = format!(
            "{} took it with the token that {} took another lock with",
            named(Some(who)),
            named(Some(&before.who))
        );
        sight.found_after(Mistake::SharedToken, None, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_the_same_interval_again_and_again() {
        let at = |times: &[i64]| times.iter().map(|&ms| UnixMs(ms)).collect::<Vec<_>>();
        assert_eq!(pace(&at(&[0, 100, 200, 300, 400]), false), Some(100));
        assert_eq!(pace(&at(&[0, 100, 200, 300]), false), None);
        assert_eq!(pace(&at(&[0, 100, 200, 300, 401]), false), None);
        assert_eq!(pace(&at(&[5, 5, 5, 5, 5, 5]), false), None);
        assert_eq!(pace(&at(&[0, 100, 201, 301, 401, 502, 602, 703, 803]), true), Some(100));
        assert_eq!(pace(&at(&[0, 90, 201, 301, 401, 502, 602, 703, 803]), true), None);
        assert_eq!(pace(&at(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), true), None);
    }
}
