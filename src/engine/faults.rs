//! The fault plan: which requests go wrong, how and how often. Rules match in order, and the first
//! that strikes decides. Not here: what a fault does to the connection (`net`) or how a rule is
//! written (`command::keylatch`).

use crate::base::chance::Chance;
use crate::base::glob;

/// Whether the fault comes before the command runs or after it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Before,
    After,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// This error line is the reply; *before*, the command does not run.
    Error(Vec<u8>),
    /// This client waits, milliseconds; *after*, its reply does.
    Delay(u64),
    /// Everybody waits, milliseconds, as while a long garbage collection of the whole server.
    Stall(u64),
    /// The connection ends without a reply.
    Drop,
    /// There is never a reply; the connection stays.
    Hang,
    /// So many bytes of the reply, then the connection ends.
    Truncate(usize),
    /// The reply comes so many bytes at a time.
    Split(usize),
    /// The deadline of the command's keys passes just before it.
    ExpireFirst,
}

impl Action {
    /// When it comes where the rule does not say; `None`: only then.
    pub fn default_phase(&self) -> Phase {
        match self {
            Action::Truncate(_) | Action::Split(_) => Phase::After,
            _ => Phase::Before,
        }
    }

    /// Whether it makes sense in `phase`.
    pub fn fits(&self, phase: Phase) -> bool {
        match self {
            Action::Truncate(_) | Action::Split(_) => phase == Phase::After,
            Action::ExpireFirst => phase == Phase::Before,
            _ => true,
        }
    }

    /// Whether it can strike a single command of a transaction or a script: what concerns the
    /// connection cannot, since there is one reply for all of them.
    pub fn fits_inside(&self) -> bool {
        matches!(self, Action::Error(_) | Action::ExpireFirst | Action::Stall(_))
    }

    /// As FAULT ADD takes it.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let number = |name: &str, n: u64| vec![name.into(), n.to_string().into_bytes()];
        match self {
            Action::Error(text) => vec![b"ERROR".to_vec(), text.clone()],
            Action::Delay(ms) => number("DELAY", *ms),
            Action::Stall(ms) => number("STALL", *ms),
            Action::Drop => vec![b"DROP".to_vec()],
            Action::Hang => vec![b"HANG".to_vec()],
            Action::Truncate(bytes) => number("TRUNCATE", *bytes as u64),
            Action::Split(bytes) => number("SPLIT", *bytes as u64),
            Action::ExpireFirst => vec![b"EXPIRE-FIRST".to_vec()],
        }
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub phase: Phase,
    /// Globs; `None` matches all.
    pub command: Option<Vec<u8>>,
    pub key: Option<Vec<u8>>,
    pub client: Option<Vec<u8>>,
    /// So many matches pass first.
    pub skip: u64,
    /// How often it strikes; `None`: always.
    pub times: Option<u64>,
    /// How likely it strikes, 0 to 1.
    pub probability: f64,
    pub action: Action,
}

impl Rule {
    /// `action`, each time, for every command, key and client, where it usually comes.
    pub fn new(action: Action) -> Rule {
        let phase = action.default_phase();
        Rule { phase, command: None, key: None, client: None, skip: 0, times: None, probability: 1.0, action }
    }

    /// Before the command runs, or after it has.
    #[must_use]
    pub fn on(self, phase: Phase) -> Rule {
        Rule { phase, ..self }
    }

    /// Only commands whose full name (`set`, `client|setname`) matches this glob, in any case.
    #[must_use]
    pub fn command(self, glob: impl AsRef<[u8]>) -> Rule {
        Rule { command: Some(glob.as_ref().to_vec()), ..self }
    }

    /// Only commands one of whose keys matches this glob.
    #[must_use]
    pub fn key(self, glob: impl AsRef<[u8]>) -> Rule {
        Rule { key: Some(glob.as_ref().to_vec()), ..self }
    }

    /// Only clients whose name (CLIENT SETNAME) matches this glob.
    #[must_use]
    pub fn client(self, glob: impl AsRef<[u8]>) -> Rule {
        Rule { client: Some(glob.as_ref().to_vec()), ..self }
    }

    /// Lets so many matches pass first.
    #[must_use]
    pub fn skip(self, matches: u64) -> Rule {
        Rule { skip: matches, ..self }
    }

    /// Strikes so often and no more.
    #[must_use]
    pub fn times(self, times: u64) -> Rule {
        Rule { times: Some(times), ..self }
    }

    /// How likely it strikes where it matches, 0 to 1.
    #[must_use]
    pub fn probability(self, probability: f64) -> Rule {
        Rule { probability: probability + 0.0, ..self } // never -0, which would be listed so
    }

    /// Whether it makes sense as a whole; where not, why.
    pub fn check(&self) -> Result<(), Nonsense> {
        match &self.action {
            Action::Error(text) if text.iter().all(u8::is_ascii_whitespace) => Err(Nonsense::NoErrorText),
            Action::Split(0) => Err(Nonsense::SplitIntoNothing),
            _ if !(0.0..=1.0).contains(&self.probability) => Err(Nonsense::Probability),
            action if action.fits(self.phase) => Ok(()),
            _ if self.phase == Phase::Before => Err(Nonsense::AfterOnly),
            _ => Err(Nonsense::BeforeOnly),
        }
    }

    /// Whether a key is one of those that it is about.
    pub fn is_about(&self, key: &[u8]) -> bool {
        self.key.as_ref().is_none_or(|glob| glob::matches(glob, key, false))
    }
}

/// Why a rule makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    NoErrorText,
    SplitIntoNothing,
    Probability,
    AfterOnly,
    BeforeOnly,
}

impl std::fmt::Display for Nonsense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Nonsense::NoErrorText => "a fault's error needs a text",
            Nonsense::SplitIntoNothing => "a reply cannot be split into pieces of 0 bytes",
            Nonsense::Probability => "a fault's probability must be a number from 0 to 1",
            Nonsense::AfterOnly => "this fault can only strike after the command",
            Nonsense::BeforeOnly => "this fault can only strike before the command",
        })
    }
}

impl std::error::Error for Nonsense {}

/// A rule in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    pub id: u64,
    pub rule: Rule,
    pub matched: u64,
    pub struck: u64,
}

/// What a rule is held against.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub phase: Phase,
    /// The command's full name.
    pub command: &'a str,
    pub keys: &'a [&'a [u8]],
    pub client: &'a [u8],
    /// A single command of a transaction or a script.
    pub inside: bool,
}

/// The rules in force, in order.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<Numbered>,
    last_id: u64,
}

impl Faults {
    /// Whether nothing can go wrong: the one look that a server without faults pays for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Puts a rule behind the others; returns its id.
    pub fn add(&mut self, rule: Rule) -> u64 {
        self.last_id += 1;
        self.rules.push(Numbered { id: self.last_id, rule, matched: 0, struck: 0 });
        self.last_id
    }

    /// Takes a rule out; tells whether it was there.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.rules.len() < before
    }

    /// Takes all out; tells how many there were.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.rules).len()
    }

    /// The rules with how often they matched and struck.
    pub fn rules(&self) -> &[Numbered] {
        &self.rules
    }

    /// The rule by which this request goes wrong, if one does.
    pub fn strike(&mut self, target: &Target<'_>, chance: &mut Chance) -> Option<Rule> {
        for numbered in &mut self.rules {
            let rule = &numbered.rule;
            if !rule.matches(target) {
                continue;
            }
            numbered.matched += 1;
            let spent = rule.times.is_some_and(|times| numbered.struck >= times);
            if numbered.matched <= rule.skip || spent || !chance.happens(rule.probability) {
                continue;
            }
            numbered.struck += 1;
            return Some(rule.clone());
        }
        None
    }
}

impl Rule {
    fn matches(&self, target: &Target<'_>) -> bool {
        let fits = |pattern: &Option<Vec<u8>>, text: &[u8], nocase| {
            pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, text, nocase))
        };
        self.phase == target.phase
            && (!target.inside || self.action.fits_inside())
            && fits(&self.command, target.command.as_bytes(), true)
            && fits(&self.client, target.client, false)
            && (self.key.is_none() || target.keys.iter().any(|key| self.is_about(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target<'a>(command: &'a str, keys: &'a [&'a [u8]]) -> Target<'a> {
        Target { phase: Phase::Before, command, keys, client: b"worker-1", inside: false }
    }

    #[test]
    fn rules_strike_in_order_as_often_as_they_say() {
        let mut faults = Faults::default();
        let mut chance = Chance::from_seed(1);
        faults.add(Rule::new(Action::Drop).skip(1).times(2));
        faults.add(Rule::new(Action::Hang).command("G*"));
        let mut strike = |command| faults.strike(&target(command, &[]), &mut chance).map(|rule| rule.action);
        assert_eq!(strike("get"), Some(Action::Hang));
        assert_eq!(strike("get"), Some(Action::Drop));
        assert_eq!(strike("set"), Some(Action::Drop));
        assert_eq!(strike("set"), None);
        assert_eq!(strike("get"), Some(Action::Hang));
        assert_eq!((faults.rules()[0].matched, faults.rules()[0].struck), (5, 2));
    }

    #[test]
    fn a_rule_looks_at_key_client_phase_and_place() {
        let mut chance = Chance::from_seed(1);
        let locks = Rule::new(Action::Error(b"ERR no".to_vec())).key("lock:*").client("worker-?");
        let mut faults = Faults::default();
        faults.add(locks);
        assert!(faults.strike(&target("get", &[b"data"]), &mut chance).is_none());
        assert!(faults.strike(&target("mget", &[b"data", b"lock:1"]), &mut chance).is_some());
        let other = Target { client: b"other", ..target("get", &[b"lock:1"]) };
        assert!(faults.strike(&other, &mut chance).is_none());
        let after = Target { phase: Phase::After, ..target("get", &[b"lock:1"]) };
        assert!(faults.strike(&after, &mut chance).is_none());
        faults.clear();
        faults.add(Rule::new(Action::Drop));
        let inside = Target { inside: true, ..target("get", &[]) };
        assert!(faults.strike(&inside, &mut chance).is_none());
    }

    #[test]
    fn nonsense_is_known() {
        let check = |action, phase| Rule::new(action).on(phase).check();
        assert_eq!(check(Action::Split(0), Phase::After), Err(Nonsense::SplitIntoNothing));
        assert_eq!(check(Action::Truncate(3), Phase::Before), Err(Nonsense::AfterOnly));
        assert_eq!(check(Action::ExpireFirst, Phase::After), Err(Nonsense::BeforeOnly));
        assert_eq!(check(Action::Error(b" ".to_vec()), Phase::After), Err(Nonsense::NoErrorText));
        for odds in [-0.1, 1.1, f64::NAN] {
            assert_eq!(Rule::new(Action::Drop).probability(odds).check(), Err(Nonsense::Probability));
        }
        assert_eq!(check(Action::Drop, Phase::After), Ok(()));
    }

    #[test]
    fn a_probability_is_reproducible() {
        let run = |seed| {
            let mut faults = Faults::default();
            faults.add(Rule::new(Action::Drop).probability(0.5));
            let mut chance = Chance::from_seed(seed);
            (0..64).filter(|_| faults.strike(&target("get", &[]), &mut chance).is_some()).count()
        };
        assert_eq!(run(7), run(7));
        assert!((16..48).contains(&run(7)));
    }
}
