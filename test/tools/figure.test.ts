import { barX } from "@observablehq/plot";
import { describe, expect, it } from "vitest";
import { drawFigure, figureWidth, type Theme, themes } from "./figure.ts";
import { themeNames } from "./generated.ts";

const figure = drawFigure({
  title: "Price & traffic",
  subtitle: "Same on every run.",
  description: "Bar chart. A costs 1, B costs 2.",
  panels: ({ colours }) => [
    { height: 100, marks: [barX([1, 2], { y: ["A", "B"], fill: colours.blue })] },
    { height: 50, marks: [barX([1], { y: ["C"], fill: colours.orange })] },
  ],
});

/** The contrast ratio of WCAG 2. */
function contrast(one: string, other: string): number {
  const luminance = (colour: string): number => {
    const [red = 0, green = 0, blue = 0] = [1, 3, 5]
      .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [lighter = 0, darker = 0] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (lighter + 0.05) / (darker + 0.05);
}

describe.each(themeNames)("a figure in the %s theme", (name) => {
  const theme: Theme = themes[name];

  it("a figure names its title and description for screen readers", () => {
    const [start] = figure[name].split(">");
    expect(start).toContain('role="img"');
    expect(start).toContain('aria-labelledby="title description"');
    expect(figure[name]).toContain('<title id="title">Price &amp; traffic</title>');
    expect(figure[name]).toContain('<desc id="description">Bar chart. A costs 1, B costs 2.</desc>');
  });

  it("a figure places its panels below one another, and its height includes all panels", () => {
    expect(figure[name]).toContain(`viewBox="0 0 ${figureWidth} 210"`);
    expect(figure[name]).toMatch(/ y="60"[^]+ y="160"/);
  });

  it("a figure uses the colours of its theme, and no style that a viewer may not support", () => {
    expect(figure[name]).toContain(theme.colours.blue);
    expect(figure[name]).toContain(theme.background);
    expect(figure[name]).not.toMatch(/<style|var\(|currentColor|\.\d{3}/);
  });

  it("the text and marks of a figure have the contrast that WCAG 2 level AA requires", () => {
    for (const text of [theme.text, theme.muted]) {
      expect(contrast(text, theme.background)).toBeGreaterThanOrEqual(4.5);
    }
    for (const colour of Object.values(theme.colours)) {
      expect(contrast(colour, theme.background)).toBeGreaterThanOrEqual(3);
    }
  });
});
