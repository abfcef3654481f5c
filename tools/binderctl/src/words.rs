// SPDX-License-Identifier: GPL-2.0
//! Words for numbers.

/// How many there are of something: `1 call`, `2 calls`, `3 processes`.
pub fn count(number: usize, what: &str) -> String {
    let ending = match number {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [count(1, "call"), count(0, "call"), count(2, "process")],
            ["1 call", "0 calls", "2 processes"]
        );
    }
}
