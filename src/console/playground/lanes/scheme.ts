/** Canvases are drawn again when the colors of the page change. */
import { signal } from "@preact/signals";

const dark = matchMedia("(prefers-color-scheme: dark)");
const contrast = matchMedia("(forced-colors: active)");
const read = (): string => `${dark.matches} ${contrast.matches} ${devicePixelRatio}`;
const scheme = signal(read());

for (const query of [dark, contrast]) {
  query.addEventListener("change", () => {
    scheme.value = read();
  });
}
addEventListener("resize", () => {
  scheme.value = read();
});

/** A text that changes with the colors and with the density of the screen. */
export const useScheme = (): string => scheme.value;
