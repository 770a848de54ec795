//! `table.sort`: Lua 5.1's quicksort, comparison by comparison, so that the results (of order functions
//! that contradict themselves, too) and the errors are the same; but without an order function it can be
//! stopped, which Lua's own cannot. Not here: SORT, the command.
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::lua::{Answer, Raise, State, fail, ffi};
use super::out::Steps;
use std::ffi::c_int;

pub(super) unsafe fn sort(l: State) -> Answer {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        let n = ffi::lua_objlen(l, 1) as c_int;
        ffi::luaL_checkstack_(l, 40, c"".as_ptr());
        if ffi::lua_type(l, 2) > ffi::LUA_TNIL {
            ffi::luaL_checktype(l, 2, ffi::LUA_TFUNCTION);
        }
        ffi::lua_settop(l, 2);
        let by_function = ffi::lua_type(l, 2) == ffi::LUA_TFUNCTION;
        Sorting { l, by_function, steps: Steps::new(l) }.range(1, n)?;
    }
    Ok(0)
}

struct Sorting {
    l: State,
    by_function: bool,
    steps: Steps,
}

impl Sorting {
    unsafe fn push(&self, i: c_int) {
        unsafe { ffi::lua_rawgeti_(self.l, 1, i) }
    }

    /// The value on top becomes item `i`, the one below it item `j`.
    unsafe fn set_two(&self, i: c_int, j: c_int) {
        unsafe {
            ffi::lua_rawseti_(self.l, 1, i);
            ffi::lua_rawseti_(self.l, 1, j);
        }
    }

    unsafe fn pop(&self, n: c_int) {
        unsafe { ffi::lua_settop(self.l, -n - 1) }
    }

    /// Whether the value at `a` comes before the one at `b` (counted from the top, negative).
    unsafe fn less(&mut self, a: c_int, b: c_int) -> Result<bool, Raise> {
        self.steps.step()?;
        let l = self.l;
        unsafe {
            if !self.by_function {
                return Ok(ffi::lua_lessthan(l, a, b) != 0);
            }
            ffi::lua_pushvalue(l, 2);
            ffi::lua_pushvalue(l, a - 1);
            ffi::lua_pushvalue(l, b - 2);
            ffi::lua_call(l, 2, 1);
            let less = ffi::lua_toboolean(l, -1) != 0;
            self.pop(1);
            Ok(less)
        }
    }

    /// Sorts items `low..=high`. It calls itself for the smaller part only, so at most 31 deep.
    unsafe fn range(&mut self, mut low: c_int, mut high: c_int) -> Result<(), Raise> {
        unsafe {
            while low < high {
                // The first, the middle and the last item are put in order.
                self.push(low);
                self.push(high);
                if self.less(-1, -2)? {
                    self.set_two(low, high);
                } else {
                    self.pop(2);
                }
                if high - low == 1 {
                    break;
                }
                let middle = low + (high - low) / 2;
                self.push(middle);
                self.push(low);
                if self.less(-2, -1)? {
                    self.set_two(middle, low);
                } else {
                    self.pop(1);
                    self.push(high);
                    if self.less(-1, -2)? {
                        self.set_two(middle, high);
                    } else {
                        self.pop(2);
                    }
                }
                if high - low == 2 {
                    break;
                }
                let i = self.split(low, high, middle)?;
                let (from, to);
                if i - low < high - i {
                    (from, to) = (low, i - 1);
                    low = i + 1;
                } else {
                    (from, to) = (i + 1, high);
                    high = i - 1;
                }
                self.range(from, to)?;
            }
        }
        Ok(())
    }

    /// Parts the items by the one at `middle`; gives where that stands then.
    unsafe fn split(&mut self, low: c_int, high: c_int, middle: c_int) -> Result<c_int, Raise> {
        unsafe {
            // The pivot stays on the stack, and waits at `high - 1`.
            self.push(middle);
            ffi::lua_pushvalue(self.l, -1);
            self.push(high - 1);
            self.set_two(middle, high - 1);
            let (mut i, mut j) = (low, high - 1);
            loop {
                i += 1;
                self.push(i);
                while self.less(-1, -2)? {
                    self.check_order(i <= high)?;
                    self.pop(1);
                    i += 1;
                    self.push(i);
                }
                j -= 1;
                self.push(j);
                while self.less(-3, -1)? {
                    self.check_order(j >= low)?;
                    self.pop(1);
                    j -= 1;
                    self.push(j);
                }
                if j < i {
                    self.pop(3);
                    break;
                }
                self.set_two(i, j);
            }
            self.push(high - 1);
            self.push(i);
            self.set_two(high - 1, i);
            Ok(i)
        }
    }

    /// Only a function that contradicts itself leads past the ends.
    unsafe fn check_order(&self, within: bool) -> Result<(), Raise> {
        if within {
            return Ok(());
        }
        unsafe { fail(self.l, "invalid order function for sorting") }.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use crate::script::tests::Bench;

    #[test]
    fn tables_are_sorted_and_a_long_sort_can_be_stopped() {
        let mut bench = Bench::new();
        let script = "math.randomseed(1) local t = {} for i = 1, 5000 do t[i] = math.random(1000) end table.sort(t) \
                      for i = 2, #t do if t[i - 1] > t[i] then return i end end return #t";
        assert_eq!(bench.eval(script), ":5000\r\n");
        let words = "local t = {'b', 'c', 'a'} table.sort(t, function(a, b) return a > b end) return t";
        assert_eq!(bench.eval(words), "*3\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\na\r\n");
        assert_eq!(bench.error("table.sort({1, 'x'})"), "-ERR attempt to compare string with number");
        // As many comparisons as there are pairs: what the median of three does not help against.
        bench.core.kill_after = Some(bench.core.breaths + 1000);
        let slow = "local n, t = 200000, {} local half = n / 2 for i = 1, half do t[i] = i % 2 == 1 and i or half + i - 1 \
                    t[half + i] = 2 * i end while true do pcall(table.sort, t) end";
        assert_eq!(bench.error(slow), "-ERR Script killed by user with SCRIPT KILL...");
    }
}
