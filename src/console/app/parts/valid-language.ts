/**
 * uPlot creates an `Intl.NumberFormat` of the browser's language when it is loaded. This throws for a language such as
 * `en-US@posix`, which Chromium has on machines without a locale.
 */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}
