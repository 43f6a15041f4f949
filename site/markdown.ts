/** Makes VitePress read the pages as GitHub does. */
import { relative } from "node:path";
import type { MarkdownRenderer } from "vitepress";
import { isOnOtherHost, type LinkContext, playgroundPath, siteLink } from "./links.ts";

type Rule = NonNullable<MarkdownRenderer["renderer"]["rules"]["text"]>;

/** The paths of the page on this machine: as it is on the site, and as it is in the repository. */
interface PageEnv {
  readonly path: string;
  /** Absent while the search index is built, which has no other path. */
  readonly realPath?: string;
}

export function readAsGitHub(md: MarkdownRenderer, context: LinkContext): void {
  const { rules } = md.renderer;
  replaceRule(rules, "link_open", (render) => (tokens, index, options, env: PageEnv, self) => {
    const token = tokens[index];
    const link = token?.attrGet("href") ?? "";
    const target = siteLink(link, relative(context.root, env.realPath ?? env.path).replaceAll("\\", "/"), context);
    token?.attrSet("href", target);
    // VitePress opens links with this class without its router, which only knows its own pages.
    if (target.startsWith(playgroundPath)) token?.attrJoin("class", "vp-raw");
    return render(tokens, index, options, env, self);
  });
  // The site loads nothing from other hosts, such as badges. Their text remains.
  replaceRule(rules, "image", (render) => (tokens, index, options, env, self) => {
    const token = tokens[index];
    if (!isOnOtherHost(token?.attrGet("src") ?? "")) return render(tokens, index, options, env, self);
    return withoutInterpolation(md.utils.escapeHtml(token?.content ?? ""));
  });
  changeHtml(rules, "text", withoutInterpolation);
  // Vue removes a line break between two elements, such as links.
  changeHtml(rules, "softbreak", () => " ");
  changeHtml(rules, "html_block", (html) => html.replace(picture, picturesByTheme));
  replaceRule(rules, "fence", (render) => (tokens, index, options, env, self) => {
    const { info = "", content = "" } = tokens[index] ?? {};
    if (info.trim() !== "mermaid") return render(tokens, index, options, env, self);
    return `<MermaidDiagram code="${encodeURIComponent(content)}" />`;
  });
}

function replaceRule(rules: Record<string, Rule | undefined>, name: string, replace: (render: Rule) => Rule): void {
  rules[name] = replace(rules[name] ?? ((tokens, index, options, _, self) => self.renderToken(tokens, index, options)));
}

function changeHtml(rules: Record<string, Rule | undefined>, name: string, change: (html: string) => string): void {
  replaceRule(rules, name, (render) => {
    return (...of) => change(render(...of));
  });
}

/** VitePress compiles the HTML as a template of Vue, in which `{{` begins an expression. */
const withoutInterpolation = (html: string): string => html.replaceAll("{{", "&#123;&#123;");

const picture = /<picture>[^]*?<\/picture>/g;

/** On GitHub, a picture follows the theme of the system. On the site it must follow the theme that the reader chose. */
function picturesByTheme(html: string): string {
  const [, dark = ""] = /srcset="([^"]+)"/.exec(html) ?? [];
  const [, light = ""] = /<img[^>]*\ssrc="([^"]+)"/.exec(html) ?? [];
  const [, alternative = ""] = /<img[^>]*\salt="([^"]*)"/.exec(html) ?? [];
  // Without `./`, Vue would not treat the source as a file. A hidden image is not loaded.
  const image = (theme: string, source: string): string =>
    `<img class="only-${theme}" loading="lazy" alt="${alternative}" src="./${source}">`;
  return `${image("light", light)}${image("dark", dark)}`;
}
