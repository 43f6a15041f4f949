/**
 * Draws the plots of the documentation with Observable Plot, each as a light and a dark SVG:
 *
 *     const { light, dark } = drawFigure({
 *       title: "Price of a million decisions",
 *       description: "Bar chart. A busy key costs $0.47, a cold key $1.48.",
 *       panels: ({ colours }) => [
 *         { height: 200, marginLeft: 160, marks: [barX(rows, { x: "dollars", y: "name", fill: colours.blue })] },
 *       ],
 *     });
 *
 * `panels` returns the options of plots that stand below one another; width, fonts and colours of text are set. Data
 * series take their colours from `theme.colours`, in the order blue, orange, green, pink, grey. `theme.background` fills
 * hollow marks. Screen readers read `title` and `description`; `title` and `subtitle` are drawn above the plots.
 */
import { plot, type PlotOptions } from "@observablehq/plot";
import { parseHTML } from "linkedom";
import type { Figure, ThemeName } from "./generated.ts";

export interface Theme {
  /** The background of GitHub's pages. */
  readonly background: string;
  readonly text: string;
  /** The colour of secondary text and reference lines. */
  readonly muted: string;
  /** Colours that readers with colour vision deficiency can distinguish, after Okabe and Ito. */
  readonly colours: Readonly<Record<"blue" | "orange" | "green" | "pink" | "grey", string>>;
}

export const themes: Readonly<Record<ThemeName, Theme>> = {
  light: {
    background: "#ffffff",
    text: "#1f2328",
    muted: "#59636e",
    colours: {
      blue: "#0072b2",
      orange: "#d55e00",
      green: "#008060",
      pink: "#b5478a",
      grey: "#6e7781",
    },
  },
  dark: {
    background: "#0d1117",
    text: "#f0f6fc",
    muted: "#9198a1",
    colours: {
      blue: "#56b4e9",
      orange: "#f0a030",
      green: "#2bc08f",
      pink: "#e08fbf",
      grey: "#8b949e",
    },
  },
};

export interface FigureOptions {
  readonly title: string;
  readonly subtitle?: string;
  /** The kind of plot and its main figures, for readers who cannot see it. */
  readonly description: string;
  readonly panels: (theme: Theme) => readonly PlotOptions[];
}

export const figureWidth = 860;

const namespace = "http://www.w3.org/2000/svg";
const fonts = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";
const { document } = parseHTML("<!doctype html><html><body></body></html>");

type SvgElement = ReturnType<typeof document.createElementNS>;

export const drawFigure = (options: FigureOptions): Figure => ({
  light: draw(options, themes.light),
  dark: draw(options, themes.dark),
});

function draw({ title, subtitle, description, panels }: FigureOptions, theme: Theme): string {
  const drawn = panels(theme).map((options) => plot({ document, width: figureWidth, ...options }));
  const headings = [
    element("text", { x: 16, y: 28, "font-size": 16, "font-weight": 600 }, title),
    ...(subtitle === undefined
      ? []
      : [element("text", { x: 16, y: 48, "font-size": 13, fill: theme.muted }, subtitle)]),
  ];
  let height = 20 + 20 * headings.length;
  for (const panel of drawn) {
    for (const style of panel.querySelectorAll("style")) style.remove();
    // The outer SVG sets these attributes.
    for (const name of ["class", "fill", "font-family", "font-size"]) panel.removeAttribute(name);
    panel.setAttribute("y", String(height));
    height += Number(panel.getAttribute("height"));
  }
  const outer = element("svg", {
    xmlns: namespace,
    role: "img",
    "aria-labelledby": "title description",
    width: figureWidth,
    height,
    viewBox: `0 0 ${figureWidth} ${height}`,
    "font-family": fonts,
    "font-size": 12,
    fill: theme.text,
  });
  const children = [
    element("title", { id: "title" }, title),
    element("desc", { id: "description" }, description),
    element("rect", { width: figureWidth, height, fill: theme.background }),
    ...headings,
    ...drawn,
  ];
  for (const child of children) outer.append(child);
  return `${portable(outer.toString(), theme)}\n`;
}

function element(name: string, attributes: Readonly<Record<string, string | number>>, text = ""): SvgElement {
  const created = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, String(value));
  created.textContent = text;
  return created;
}

/** Replaces what some viewers do not support, and shortens numbers. */
const portable = (svg: string, theme: Theme): string =>
  svg
    .replaceAll("currentColor", theme.text)
    .replaceAll("var(--plot-background)", theme.background)
    .replaceAll(/(?<=="[^"]*)\d+\.\d{3,}(?=[^"]*")/g, (number) => String(Number(Number(number).toFixed(2))));
