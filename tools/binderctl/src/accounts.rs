// SPDX-License-Identifier: GPL-2.0
//! Names of users and groups, as far as `/etc/passwd` and `/etc/group` tell: a static program cannot ask other sources.

use std::fs;

/// Which of the two kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Users.
    User,
    /// Groups.
    Group,
}

impl Kind {
    fn lines(self) -> String {
        let path = match self {
            Self::User => "/etc/passwd",
            Self::Group => "/etc/group",
        };
        fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The number of a name, or the number itself.
    pub fn number(self, name: &str) -> Option<u32> {
        name.parse()
            .ok()
            .or_else(|| entries(&self.lines()).find(|(found, _)| *found == name).map(|(_, id)| id))
    }

    /// The name of a number, or the number itself where it has none.
    pub fn name(self, number: u32) -> String {
        let lines = self.lines();
        let found = entries(&lines).find(|(_, id)| *id == number).map(|(name, _)| name.to_owned());
        found.unwrap_or_else(|| number.to_string())
    }
}

/// Both files have the name first and the number third.
fn entries(lines: &str) -> impl Iterator<Item = (&str, u32)> {
    lines.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?, fields.nth(1)?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_name_and_number() {
        let found: Vec<_> = entries("root:x:0:0::/:/bin/sh\n+::::::\nsystem:x:1000:\n").collect();
        assert_eq!(found, [("root", 0), ("system", 1000)]);
    }

    #[test]
    fn a_number_needs_no_name() {
        assert_eq!(Kind::User.number("4711"), Some(4711));
        assert_eq!(Kind::Group.number("no such group, surely"), None);
    }
}
