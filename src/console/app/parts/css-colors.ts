/** The colors of CSS variables for a canvas, which follow the color scheme. */

const dark = matchMedia("(prefers-color-scheme: dark)");

export class CssColors {
  readonly #frame: HTMLElement;
  readonly #onChange: () => void;
  readonly #known = new Map<string, string>();

  /** @param onChange is called when the color scheme has changed */
  constructor(frame: HTMLElement, onChange: () => void) {
    this.#frame = frame;
    this.#onChange = onChange;
    dark.addEventListener("change", this.#forget);
  }

  /** A canvas knows no CSS variables, and the value of a variable with `light-dark()` is no color yet. */
  of(name: string): string {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    this.#frame.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    this.#known.set(name, color);
    return color;
  }

  stop(): void {
    dark.removeEventListener("change", this.#forget);
  }

  readonly #forget = (): void => {
    this.#known.clear();
    this.#onChange();
  };
}
