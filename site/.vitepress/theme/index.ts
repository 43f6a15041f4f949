/** The default theme with the fonts of the system, the diagrams, and styles for wide code. */
import type { Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { MermaidDiagram } from "../../mermaid-diagram.ts";
// oxlint-disable-next-line import/no-unassigned-import -- a style sheet has no exports
import "./style.css";

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component("MermaidDiagram", MermaidDiagram);
  },
} satisfies Theme;
