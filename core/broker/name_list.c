#include "name_list.h"

bool name_list_has(struct slice list, struct slice name)
{
	while (list.len > 0)
		if (slice_is_equal(slice_cut(&list, ','), name))
			return true;
	return false;
}

bool name_list_is(struct slice text)
{
	if (text.len > 0 && text.data[text.len - 1] == ',')
		return false;
	while (text.len > 0) {
		struct slice name = slice_cut(&text, ',');

		if (!slice_is_name(name) || name_list_has(text, name))
			return false;
	}
	return true;
}

bool name_list_is_same(struct slice a, struct slice b)
{
	if (a.len != b.len)
		return false;
	while (a.len > 0)
		if (!name_list_has(b, slice_cut(&a, ',')))
			return false;
	return true;
}
