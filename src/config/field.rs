//! How one value is read from YAML straight into its type, and the two macros that make sections
//! and closed choices from a table. Never goes through an untyped value: `1.10` would lose its zero.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{McpServer, Secret, credential};

/// A value that can stand behind a key.
pub(super) trait Field: Sized {
    /// Reads the value; `None` is YAML's `null`, which stands for the default.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error>;

    /// Adds what must never show up in a text.
    fn secrets<'a>(&'a self, _found: &mut Vec<&'a str>) {}

    /// Puts `value`, JSON from outside, in the place of what is there; a section takes single keys. Null
    /// and blank text change nothing. `key` is the dotted name for the complaint, which shows no value.
    fn overlay(&mut self, key: &str, value: Value) -> Result<(), String> {
        if value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Ok(());
        }
        match Self::read(value) {
            Ok(Some(new)) => *self = new,
            Ok(None) => {}
            Err(_) => return Err(format!("`{key}` is of the wrong type, or none of the choices")),
        }
        Ok(())
    }
}

/// Reads text as it is written; `None` is `null`.
///
/// Nothing at all, as in `label: #todo`, is empty text and not `null`: an option would take both
/// for the default, and the agent would then poll with a label that nobody wrote.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(if matches!(text.as_str(), "null" | "Null" | "NULL" | "~") { None } else { Some(text) })
}

impl Field for String {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        text(deserializer)
    }
}

impl Field for PathBuf {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(text(deserializer)?.map(Self::from))
    }
}

impl Field for Option<String> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Some(text(deserializer)?.filter(|text| !text.trim().is_empty())))
    }
}

impl Field for Option<PathBuf> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Option::<String>::read(deserializer)?.map(|text| text.map(PathBuf::from)))
    }
}

impl Field for Option<Secret> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Option::<String>::read(deserializer)?.map(|text| text.map(Secret::new)))
    }

    fn secrets<'a>(&'a self, found: &mut Vec<&'a str>) {
        found.extend(self.iter().map(Secret::expose));
    }
}

/// Values for which serde's own reading and its own `null` are right.
macro_rules! plain_fields {
    ($($Type:ty),+) => {$(
        impl Field for $Type {
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
                Option::deserialize(deserializer)
            }
        }
    )+};
}
plain_fields!(bool, u16, u32, u64, f64, Option<u16>, Option<u32>, Vec<String>);

impl Field for Vec<McpServer> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Option::deserialize(deserializer)
    }

    fn secrets<'a>(&'a self, found: &mut Vec<&'a str>) {
        for server in self {
            server.secrets(found);
            server.command.iter().chain(&server.url).for_each(|text| credential::add_in(text, found));
        }
    }
}

impl Field for BTreeMap<String, String> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Option::<Entries<String>>::deserialize(deserializer)?.map(|entries| entries.0))
    }
}

impl Field for BTreeMap<String, Secret> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Option::<Entries<Secret>>::deserialize(deserializer)?.map(|entries| entries.0))
    }

    fn secrets<'a>(&'a self, found: &mut Vec<&'a str>) {
        self.iter().for_each(|(name, value)| credential::add_of(name, value.expose(), found));
    }
}

/// A map whose keys may not repeat; serde's own lets the last one win without a word.
struct Entries<T>(BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Once<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if entries.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                    entries.insert(name, map.next_value()?);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Once(PhantomData))
    }
}

/// Reads the name of a choice. Refuses inside the visitor: afterwards the path would be gone.
pub(super) struct Named<T>(pub(super) fn(&str) -> Option<T>, pub(super) &'static [&'static str]);

impl<T> Visitor<'_> for Named<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.1.join(", "))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
        self.0(name).ok_or_else(|| E::unknown_variant(name, self.1))
    }
}

/// Makes a section: the struct, its defaults, its reading and its secrets from one table.
/// `name ("other")` gives a key a second name.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $Name:ident { $( $(#[$key_doc:meta])* $key:ident $(($alias:literal))? : $Type:ty = $default:expr ),+ $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Name { $( $(#[$key_doc])* pub $key: $Type, )+ }

        impl Default for $Name {
            fn default() -> Self {
                Self { $( $key: $default, )+ }
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Default, serde::Deserialize)]
                #[serde(default, deny_unknown_fields)]
                struct Section {
                    $(
                        $( #[serde(alias = $alias)] )?
                        #[serde(deserialize_with = "crate::config::field::Field::read")]
                        $key: Option<$Type>,
                    )+
                }
                let section = Section::deserialize(deserializer)?;
                let default = Self::default();
                Ok(Self { $( $key: section.$key.unwrap_or(default.$key), )+ })
            }
        }

        impl $crate::config::field::Field for $Name {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            fn secrets<'a>(&'a self, found: &mut Vec<&'a str>) {
                $( $crate::config::field::Field::secrets(&self.$key, found); )+
            }

            fn overlay(&mut self, key: &str, value: serde_json::Value) -> Result<(), String> {
                let fields = match value {
                    serde_json::Value::Null => return Ok(()),
                    serde_json::Value::Object(fields) => fields,
                    _ => return Err(format!("`{key}` is no section with keys")),
                };
                for (name, value) in fields {
                    let full = format!("{key}.{name}");
                    match name.as_str() {
                        $( stringify!($key) => $crate::config::field::Field::overlay(&mut self.$key, &full, value)?, )+
                        _ => return Err(format!("there is no key `{full}`")),
                    }
                }
                Ok(())
            }
        }
    };
}

/// Makes a closed choice: the enum and its names, as YAML and the environment spell them.
macro_rules! choice {
    ($(#[$doc:meta])* $Name:ident { $( $(#[$variant_doc:meta])* $Variant:ident = $name:literal ),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name { $( $(#[$variant_doc])* $Variant, )+ }

        impl $Name {
            /// All names, in the order of the documentation.
            pub const NAMES: &'static [&'static str] = &[$( $name, )+];

            /// The name as it is written.
            pub fn name(self) -> &'static str {
                match self { $( Self::$Variant => $name, )+ }
            }

            /// The choice called `name`, if there is one.
            pub fn named(name: &str) -> Option<Self> {
                match name { $( $name => Some(Self::$Variant), )+ _ => None }
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::config::field::Named(Self::named, Self::NAMES))
            }
        }

        impl $crate::config::field::Field for $Name {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
        }
    };
}

pub(super) use {choice, section};
