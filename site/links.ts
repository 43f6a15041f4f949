/** The links of the pages, which are written for GitHub: paths relative to the page, and the playground of `npm start`. */
import { existsSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { sitePathOf } from "./navigation.ts";

/** `npm start` serves the playground at this address. The site has one of its own. */
const localPlayground = /^http:\/\/admin\.localhost:8787\/_headgate\/playground\/?/;

/** README links the workflows of its repository, such as `../../actions/workflows/ci.yml`, from its address on GitHub. */
const workflow = /^(?:\.\.\/){2}(?=actions\/)/;

/** The playground's path on the site. It is a page without VitePress. */
export const playgroundPath = "/playground/";

export interface LinkContext {
  /** The root of the repository on this machine. */
  readonly root: string;
  /** The address of the repository, such as `https://github.com/owner/headgate`. */
  readonly repository: string;
}

/**
 * A path from the root of the site for a page and for the playground, a URL in the repository for any other file, and the
 * link itself if it leads elsewhere.
 * @param file the page with the link, from the root of the repository
 * @throws Error if the file does not exist
 */
export function siteLink(link: string, file: string, { root, repository }: LinkContext): string {
  if (localPlayground.test(link)) return link.replace(localPlayground, playgroundPath);
  if (link.startsWith("#") || /^(?:[a-z][a-z\d+.-]*:|\/\/)/i.test(link)) return link;
  const [, path = "", rest = ""] = /^([^?#]*)(.*)$/s.exec(link) ?? [];
  if (file === "README.md" && workflow.test(link)) return link.replace(workflow, `${repository}/`);
  const target = posix.join(posix.dirname(file), decodeURI(path));
  if (target.startsWith("..") || !existsSync(join(root, target))) {
    throw new Error(`${file}: the link ${link} leads to ${target}, which does not exist`);
  }
  if (isPage(target)) return `/${sitePathOf(target)}${rest}`;
  const kind = statSync(join(root, target)).isDirectory() ? "tree" : "blob";
  return `${repository}/${kind}/main/${target}${rest}`;
}

/** Whether an image is on another host, such as a badge. */
export const isOnOtherHost = (source: string): boolean => /^https?:/.test(source) || workflow.test(source);

const isPage = (file: string): boolean => file === "README.md" || /^docs\/.*\.md$/.test(file);

/** The address of the repository in which a workflow runs, or else the one in `package.json`. */
export function repositoryUrl(
  manifest: { readonly repository: { readonly url: string } },
  env: Readonly<Record<string, string | undefined>> = process.env,
): string {
  const { GITHUB_SERVER_URL: server = "https://github.com", GITHUB_REPOSITORY: name } = env;
  return name === undefined ? manifest.repository.url.replace(/^git\+|\.git$/g, "") : `${server}/${name}`;
}
