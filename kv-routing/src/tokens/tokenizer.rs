//! A loaded tokenizer: the image, and what is read off it once.

use super::cut::Cuts;
use super::image::{Image, ImageError, Meta, Section, decode_template};
use super::nfc::Nfc;
use super::table::{AddedMatch, AddedSet, Tables};
use super::template::TemplateConfig;

/// A compiled tokenizer ready for use. It never changes; everything that does is in `super::workshop`.
#[derive(Debug)]
pub struct Tokenizer {
    image: Image,
    meta: Meta,
    raw: AddedSet,
    normalized: AddedSet,
    cuts: Cuts,
}

impl Tokenizer {
    /// Takes over a compiled tokenizer and uses its tables in place.
    ///
    /// # Errors
    /// [`ImageError`] when it is damaged or made for another release.
    pub fn load(compiled: Vec<u8>) -> Result<Self, ImageError> {
        let image = Image::open(compiled)?;
        let meta = Meta::decode(image.section(Section::Meta))?;
        let raw = AddedSet::new(image.section(Section::AddedRaw));
        let normalized = AddedSet::new(image.section(Section::AddedNormalized));
        let cuts = Cuts::of(&meta, !normalized.is_empty());
        Ok(Self { image, meta, raw, normalized, cuts })
    }

    /// How it tokenizes.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The image it reads.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The chat templates and what belongs to them; none for a model without.
    ///
    /// # Errors
    /// [`ImageError::Template`] when the section is damaged.
    pub fn template(&self) -> Result<Option<TemplateConfig>, ImageError> {
        decode_template(self.image.section(Section::Template))
    }

    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables::of(&self.image)
    }

    pub(crate) fn nfc(&self) -> Nfc<'_> {
        Nfc::of(&self.image)
    }

    /// Whether a text between added tokens may be cut before `at`, so that both sides tokenize as they do together. For tests: this is
    /// what the exactness of the caches rests on.
    pub fn may_cut(&self, text: &str, at: usize) -> bool {
        self.cuts.allowed(&self.tables(), text.as_bytes(), at)
    }

    pub(crate) fn cuts(&self) -> Cuts {
        self.cuts
    }

    /// Bytes of the longest added token of raw text.
    pub(crate) fn longest_raw(&self) -> usize {
        self.raw.longest()
    }

    /// The next added token of raw text.
    pub(crate) fn next_raw(&self, tables: &Tables<'_>, text: &[u8], from: usize) -> Option<AddedMatch> {
        self.raw.next(self.image.section(Section::AddedRaw), &tables.classes, text, from)
    }

    /// The next added token of normalized text.
    pub(crate) fn next_normalized(&self, tables: &Tables<'_>, text: &[u8], from: usize) -> Option<AddedMatch> {
        if self.normalized.is_empty() {
            return None;
        }
        self.normalized.next(self.image.section(Section::AddedNormalized), &tables.classes, text, from)
    }
}
