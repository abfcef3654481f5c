// SPDX-License-Identifier: GPL-2.0
//! `binderctl chown`: whose device it is.

use std::os::unix::fs::chown;
use std::path::Path;

use clap::Args;

use crate::accounts;
use crate::error::Error;
use crate::error::Outcome;
use crate::error::Result;
use crate::instances;
use crate::instances::Changed;
use crate::options::Options;
use crate::output::Output;

/// What to change.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// The new owner, by name or number; one of the two may be left out: `system`, `:system`, `1000:1000`.
    #[arg(value_name = "USER[:GROUP]", value_parser = owner)]
    owner: Owner,
    /// The devices' names.
    #[arg(required = true)]
    names: Vec<String>,
}

/// A user, a group, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user, unless it stays as it is.
    pub user: Option<u32>,
    /// The group, likewise.
    pub group: Option<u32>,
}

/// Changes them all.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<Outcome> {
    let instance = instances::chosen(options)?;
    for device in instance.devices_named(&arguments.names)? {
        apply(&device.path, &arguments.owner)?;
    }
    output.print(&Changed { what: "changed", devices: instance.devices_named(&arguments.names)? })?;
    Ok(Outcome::Fine)
}

/// Sets the owner of a path.
pub fn apply(path: &Path, owner: &Owner) -> Result<()> {
    chown(path, owner.user, owner.group)
        .map_err(|error| Error::at("change the owner of", path, error).hint_if_denied("root may"))
}

/// Reads an owner as chown(1) does.
pub fn owner(text: &str) -> std::result::Result<Owner, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let number = |kind: accounts::Kind, name: &str, what| match name {
        "" => Ok(None),
        name => kind.number(name).map(Some).ok_or(format!("there is no {what} {name}")),
    };
    let owner = Owner {
        user: number(accounts::Kind::User, user, "user")?,
        group: number(accounts::Kind::Group, group, "group")?,
    };
    match owner {
        Owner { user: None, group: None } => Err("neither a user nor a group is named".to_owned()),
        owner => Ok(owner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_user_a_group_or_both() {
        assert_eq!(owner("1000"), Ok(Owner { user: Some(1000), group: None }));
        assert_eq!(owner(":1001"), Ok(Owner { user: None, group: Some(1001) }));
        assert_eq!(owner("1:2"), Ok(Owner { user: Some(1), group: Some(2) }));
        assert!(owner(":").is_err() && owner("").is_err() && owner("no such user, surely").is_err());
    }
}
